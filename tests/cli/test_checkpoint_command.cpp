// fptrain checkpoint list|inspect|verify|diff|consolidate on the command line.
#include "checkpoint/fixture.h"
#include "support/count_of.h"
#include "support/process.h"

namespace fp::test {
namespace {

using std::filesystem::path;

test::Outcome checkpoint(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {FP_EXECUTABLE, "checkpoint"});
  return test::run(arguments);
}

struct Run {
  MemoryFolder dir;
  path checkpoints = dir.path / "checkpoints";
  State state{small_table()};
  path first = save(checkpoints, state, 10, 1);
  path second = save(checkpoints, state, 20, 2);
};

TEST_CASE("list shows good and damaged checkpoints of a run") {
  const Run run;
  std::filesystem::remove(run.first / "index.h5");
  const auto out = checkpoint({"list", run.dir.path.string()});
  CHECK(out.code == 3);
  CHECK(out.output.find("step-00000020") < out.output.find("step-00000010"));
  CHECK(contains(out.output, "20.3333333"));
  CHECK(contains(out.output, "complete"));
  CHECK(contains(out.output, "damaged"));
  CHECK(contains(out.output, "index.h5: is missing"));
  CHECK(checkpoint({"list", (run.dir.path / "none").string()}).code == 3);
  std::filesystem::rename(run.second, run.checkpoints / "step-00000030");
  CHECK(contains(checkpoint({"list", run.dir.path.string()}).output, "step-00000030: holds step 20"));
}

TEST_CASE("list says what it has checked, and --verify reads the content") {
  const Run run;
  std::string content = read_file(run.second / "rank-00000.h5");
  content[content.size() / 2] = static_cast<char>(content[content.size() / 2] ^ 4);
  write_text(run.second / "rank-00000.h5", content);
  const auto quick = checkpoint({"list", run.dir.path.string()});
  CHECK(quick.code == 0);
  CHECK(count_of(quick.output, "complete, content not verified") == 2);
  const auto thorough = checkpoint({"list", run.dir.path.string(), "--verify"});
  CHECK(thorough.code == 3);
  CHECK(count_of(thorough.output, "complete, content verified") == 1);
  CHECK(contains(thorough.output, "rank-00000.h5: content differs"));
}

TEST_CASE("list shows a good or damaged checkpoint given by its path") {
  const Run run;
  const auto all = checkpoint({"list", run.dir.path.string()});
  CHECK(all.code == 0);
  CHECK(contains(all.output, "step-00000010"));
  const auto one = checkpoint({"list", run.first.string() + "/"});
  CHECK(one.code == 0);
  CHECK(contains(one.output, "step-00000010"));
  CHECK(contains(one.output, "complete"));
  CHECK_FALSE(contains(one.output, "step-00000020"));
  std::filesystem::remove(run.first / "manifest.json");
  const auto damaged = checkpoint({"list", run.first.string()});
  CHECK(damaged.code == 3);
  CHECK(contains(damaged.output, "step-00000010"));
  CHECK(contains(damaged.output, "damaged"));
  const MemoryFolder empty;
  const auto none = checkpoint({"list", empty.path.string()});
  CHECK(none.code == 0);
  CHECK(contains(none.output, "no checkpoints"));
}

TEST_CASE("inspect shows every tensor, or one of them") {
  const Run run;
  const auto all = checkpoint({"inspect", run.dir.path.string()});
  CHECK(all.code == 0);
  CHECK(contains(all.output, "step 20, 160 samples"));
  for (const Param& p : run.state.table) CHECK(contains(all.output, p.name));
  const std::string name = "model.layers.1.self_attn.o_proj.weight";
  const auto one = checkpoint({"inspect", run.first.string(), "--param", name});
  CHECK(one.code == 0);
  CHECK(contains(one.output, name + " [16,32]"));
  CHECK(contains(one.output, fmt::format("first: {:.9g}", known_value(name, "param", 0, 1))));
  CHECK(contains(one.output, "exp_avg_sq/0 of shape [16,32] at [0,0] in rank-00000.h5"));
  const auto none = checkpoint({"inspect", run.first.string(), "--param", "o_proj"});
  CHECK(none.code == 2);
  CHECK(contains(none.output, "holds no such parameter"));
}

TEST_CASE("consolidate copies the newest checkpoint and overwrites nothing") {
  const Run run;
  const std::string copy = (run.dir.path / "copy").string();
  const auto made = checkpoint({"consolidate", run.dir.path.string(), "--out", copy});
  CHECK(contains(made.output, copy + ": step 20, made and verified"));
  CHECK(made.code == 0);
  CHECK(checkpoint({"diff", run.second.string(), copy}).code == 0);
  const auto again = checkpoint({"consolidate", run.dir.path.string(), "--out", copy});
  CHECK(contains(again.output, "exists already"));
  CHECK(again.code == 2);
}

TEST_CASE("verify ends with 3 and names the damaged file") {
  const Run run;
  CHECK(checkpoint({"verify", run.dir.path.string()}).code == 0);
  std::string content = read_file(run.first / "rank-00000.h5");
  content[content.size() / 2] = static_cast<char>(content[content.size() / 2] ^ 1);
  write_text(run.first / "rank-00000.h5", content);
  const auto one = checkpoint({"verify", run.first.string()});
  CHECK(one.code == 3);
  CHECK(contains(one.output, "rank-00000.h5: content differs"));
  const auto all = checkpoint({"verify", run.dir.path.string()});
  CHECK(all.code == 3);
  CHECK(contains(all.output, "step-00000020: good"));
  CHECK(contains(all.output, "step-00000010: damaged"));
  CHECK(checkpoint({"verify", (run.dir.path / "none").string()}).code == 3);
}

TEST_CASE("diff ends with 0, 1 or 3") {
  Run run;
  const path same = save(run.dir.path / "other", run.state, 20, 2);
  const auto equal = checkpoint({"diff", run.second.string(), same.string()});
  CHECK(equal.code == 0);
  CHECK(contains(equal.output, "45 tensors compared, all bit-identical; step, samples and loss are the same"));
  const auto different = checkpoint({"diff", run.first.string(), run.second.string()});
  CHECK(different.code == 1);
  CHECK(contains(different.output, "45 tensors compared, 45 differ"));
  CHECK(contains(different.output, "step: 10 and 20"));
  std::filesystem::remove(same / "manifest.json");
  CHECK(checkpoint({"diff", run.second.string(), same.string()}).code == 3);
  CHECK(checkpoint({"diff", run.second.string()}).code == 2);
}

// Alters a manifest and corrects its hash.
void replace_in_manifest(const path& folder, const std::string& from, const std::string& to) {
  std::string text = read_file(folder / "manifest.json");
  REQUIRE(contains(text, from));
  write_text(folder / "manifest.json", resealed(text.replace(text.find(from), from.size(), to)));
}

TEST_CASE("terminal escapes in a manifest are shown, not sent") {
  const Run run;
  const std::string escape = R"(\u001b]0;owned\u0007\u009b2J)", as_shown = R"(\x1b]0;owned\x07\u009b2J)";
  replace_in_manifest(run.first, R"("created_by": "fptrain")", R"("created_by": ")" + escape + '"');
  replace_in_manifest(run.first, R"("created_at": ")", R"("created_at": ")" + escape);
  replace_in_manifest(run.first, R"("note": ")", R"("no)" + escape + R"(te": "\u007f\u009b)");
  const auto shown_by = [&](std::vector<std::string> arguments, int code) {
    const auto out = checkpoint(std::move(arguments));
    CAPTURE(out.output);
    CHECK(out.code == code);
    for (const char control : {'\x1b', '\x07', '\x7f', '\x9b'}) CHECK(out.output.find(control) == std::string::npos);
    return out.output;
  };
  CHECK(contains(shown_by({"list", run.first.string()}, 0), as_shown));
  const std::string inspected = shown_by({"inspect", run.first.string()}, 0);
  CHECK(contains(inspected, "by " + as_shown));
  CHECK(contains(inspected, "saved " + as_shown));
  CHECK(contains(inspected, R"(  no)" + as_shown + "te: "));
  CHECK(contains(shown_by({"diff", run.first.string(), run.second.string()}, 1), "note: extra.no" + as_shown + "te: "));

  // Invalid names are refused and printed escaped.
  replace_in_manifest(run.first, R"("name": "model.embed)", R"("name": ")" + escape);
  for (const char* command : {"list", "inspect", "verify"})
    CHECK(contains(shown_by({command, run.first.string()}, 3), "'" + as_shown + "_tokens.weight' is not the name of"));
  replace_in_manifest(run.second, R"("created_by": ")", R"("created_by": ")" + escape);
  make_newer(run.second);
  CHECK(contains(shown_by({"inspect", run.second.string()}, 2), "the program that saved it, " + as_shown));
}

TEST_CASE("commands read an older checkpoint only with --hdf5") {
  Run run;
  make_older(run.first);
  const std::string older = run.first.string(), copy = (run.dir.path / "copy").string();
  const std::vector<std::vector<std::string>> commands = {
      {"inspect", older},
      {"inspect", older, "--param", "model.layers.1.self_attn.o_proj.weight"},
      {"verify", older},
      {"diff", older, older},
      {"consolidate", older, "--out", copy}};
  for (std::vector<std::string> command : commands) {
    CAPTURE(command);
    const auto refused = checkpoint(command);
    CHECK(refused.code == 2);
    CHECK(contains(refused.output, "fptrain checkpoint consolidate --hdf5 " + older));
    command.push_back("--hdf5");
    const auto read = checkpoint(command);
    CAPTURE(read.output);
    CHECK(read.code == 0);
  }
  const auto rewritten = checkpoint({"diff", older, copy, "--hdf5"});
  CHECK(rewritten.code == 0);
  CHECK(checkpoint({"inspect", copy}).code == 0);
  CHECK(contains(checkpoint({"list", run.dir.path.string()}).output, "complete"));
  // The other checkpoints of the run are verified, too.
  const auto all = checkpoint({"verify", run.dir.path.string()});
  CHECK(all.code == 2);
  CHECK(contains(all.output, "step-00000020: good"));
  CHECK(contains(all.output, "step-00000010: was saved by a version of fptrain that did not write index.bin"));
  const auto with_hdf5 = checkpoint({"verify", run.dir.path.string(), "--hdf5"});
  CHECK(with_hdf5.code == 0);
  CHECK(contains(with_hdf5.output, "as HDF5 reads them, too"));
}

TEST_CASE("inspect shows nothing of a file that an untrusted checkpoint links to") {
  const Run run;
  std::filesystem::rename(run.first / "rank-00000.h5", run.dir.path / "elsewhere");
  std::filesystem::create_symlink(run.dir.path / "elsewhere", run.first / "rank-00000.h5");
  for (const char* command : {"list", "inspect", "verify"}) {
    const auto refused = checkpoint({command, run.first.string()});
    CHECK(refused.code == 3);
    CHECK(contains(refused.output, "rank-00000.h5: is a symbolic link"));
  }
}

}  // namespace
}  // namespace fp::test
