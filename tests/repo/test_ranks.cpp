// Ops and models do not depend on ranks: lib/sharding decides which rank holds what, and the parameter table records
// it. So a new way to divide a model changes no formula.
//
// Checked by names, in code without comments and literals: no coordinate of the mesh (tp_index, .at.sp, mesh.dp(),
// rank() of a group or world), no launcher's variable, and no division or remainder by a number of ranks. Allowed are
// the files that build a rank's part of the model with lib/sharding.
#include <catch2/catch.hpp>
#include <regex>
#include <set>

#include "repo/source_tree.h"

namespace fp::test {
namespace {

const std::set<std::string> kPlaces = {
    "lib/model/groups.cpp",                        // a mesh becomes process groups
    "lib/model/params.h", "lib/model/params.cpp",  // the parameter table: the cut of every tensor
    "lib/model/model.cpp",                         // gets this rank's heads, tokens, vocabulary from lib/sharding
};

struct Rule {
  std::regex pattern;
  const char* why;
};

const std::vector<Rule>& rules() {
  // Numbers of ranks, as code names them.
  static const std::string count =
      R"((?:\w*(?:ranks|shards|world_size)_?\b|[tsdp]p_?\b|(?:group\w*|tensor|sequence|data|world)->size\(\)))";
  static const std::vector<Rule> list = {
      // The rank of a group or world; a tensor has a rank, too: its shape's number of dimensions.
      {std::regex(R"(\b(?:group|world|tensor|sequence|data|peers|comm)\w*(?:->|\.)rank\(\))"), "asks for its rank"},
      {std::regex(R"(\b(?:tp|sp|dp|pp|tensor|sequence|data|rank)_(?:index|rank|i)\b|\b(?:tp|sp|dp|pp)_index\(\))"),
       "has a coordinate of the mesh"},
      {std::regex(R"((?:\bat|Coordinate\w*)\s*\.\s*(?:tp|sp|dp|pp)\b|\bmesh\w*(?:->|\.)\w+\()"), "asks the mesh"},
      {std::regex(R"(\blocal_rank\b|\bOMPI_COMM_\w+|\bSLURM_\w+)"), "knows how it was launched"},
      {std::regex("[/%]\\s*\\(?\\s*(?:\\w+(?:->|\\.))*" + count), "divides by a number of ranks"},
  };
  return list;
}

void check_ranks(const std::string& path, const std::string& text, Problems& problems) {
  int number = 0;
  for (const std::string& line : split_lines(strip_comments_and_literals(text))) {
    ++number;
    for (const Rule& rule : rules()) {
      if (!std::regex_search(line, rule.pattern)) continue;
      problems.add(path, std::string(rule.why) + " in line " + std::to_string(number) + ": " + trim(line));
    }
  }
}

TEST_CASE("ops and models do no arithmetic on ranks") {
  Problems problems("ranks");
  size_t seen = 0;
  std::set<std::string> used;
  for (const std::string& path : project_files({"lib/ops", "cuda/ops", "lib/model"}, {".h", ".cpp", ".cu", ".cuh"})) {
    ++seen;
    if (kPlaces.count(path)) {
      Problems inside("none");
      check_ranks(path, read_project_file(path), inside);
      if (inside.report() != "") used.insert(path);
    } else {
      check_ranks(path, read_project_file(path), problems);
    }
  }
  CHECK(seen > 100);
  CHECK(problems.report() == "");
  // The patterns find rank arithmetic in every allowed file, so no file is allowed without need.
  CHECK(used == kPlaces);
}

TEST_CASE("the rank check finds arithmetic on ranks") {
  const auto found = [](const std::string& line) {
    Problems problems("none");
    check_ranks("block.cpp", "void f() {\n  " + line + "\n}\n", problems);
    return problems.report();
  };
  for (const char* line :
       {"const int64_t mine = heads / env_->tensor->size();", "const int64_t n = e.arch->ffn / tp;",
        "first = (hidden % e.tokens.ranks);", "if (e.tensor->rank() == 0) add(bias);", "w = groups.data->rank();",
        "const int64_t first = heads * tp_index;", "first = table.tp_index() * n;", "row = b.rows() * groups.at.sp;",
        "const int n = mesh.tp();", "n = groups_.mesh.rank_of(c);", "const int r = world_rank * n / world_size;",
        "device = local_rank;", "each = elements / shards_;"}) {
    CAPTURE(line);
    CHECK(found(line).find("block.cpp: ") == 0);
  }
  for (const char* line :
       {"FP_CHECK(x.shape.rank() == 2);", "const int rank = x.shape.rank();", "n = rows / threads.size();",
        "// mesh.tp() and heads / tp", "fail(\"tensor->rank() / tp\");", "y = e.reduce(std::move(y), batch);",
        "all_gather(parts, stats);"}) {
    CAPTURE(line);
    CHECK(found(line) == "");
  }
  CHECK(found("x = n / tp;") == "block.cpp: divides by a number of ranks in line 2: x = n / tp;\n");
}

}  // namespace
}  // namespace fp::test
