// The documents match the repository: links lead to files, and the commands of README and CONTRIBUTING exist.
#include <sys/wait.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <regex>
#include <sstream>

#include "io/filesystem.h"
#include "repo/source_tree.h"

namespace fp::test {
namespace {

// Pages whose commands are checked.
const std::vector<std::string> kGuides = {"README.md", "CONTRIBUTING.md", "docs/parallelism.md"};

struct MarkdownParts {
  std::string prose;                    // code blocks removed
  std::vector<std::string> code_lines;  // lines of fenced blocks
  std::string yaml;                     // lines of ```yaml blocks
};

MarkdownParts split_markdown(const std::string& text) {
  MarkdownParts parts;
  bool in_code = false, in_yaml = false;
  for (const std::string& line : split_lines(text)) {
    if (trim(line).starts_with("```")) {
      in_code = !in_code;
      in_yaml = trim(line) == "```yaml";
    } else if (in_code) {
      parts.code_lines.push_back(line);
      if (in_yaml) parts.yaml += line + "\n";
    } else {
      parts.prose += line + "\n";
    }
  }
  return parts;
}

// Targets of [text](target), ![alt](target) and src="target" that should be files of the project.
std::vector<std::string> local_links(const std::string& prose) {
  static const std::regex link(R"(\]\(([^)\s]+)\)|src="([^"]+)\")");
  std::vector<std::string> targets;
  for (std::sregex_iterator it(prose.begin(), prose.end(), link), end; it != end; ++it) {
    std::string target = (*it)[1].matched ? (*it)[1] : (*it)[2];
    target = target.substr(0, target.find('#'));
    if (!target.empty() && target.find("://") == std::string::npos && !target.starts_with("mailto:")) {
      targets.push_back(target);
    }
  }
  return targets;
}

struct Command {
  std::vector<std::string> subcommands;
  std::vector<std::string> flags;
};

// "mpirun -np 8 build/fptrain train x.yaml" as "build/fptrain train x.yaml".
std::string without_launcher(const std::string& line) {
  static const std::regex launched(R"(^(?:mpirun|srun)\s.*?\s((?:\S*/)?fptrain\s.*))");
  std::smatch match;
  return std::regex_search(line, match, launched) ? match[1].str() : line;
}

// "fptrain data prepare --out DIR x.txt": subcommands data prepare, flag --out. Comments and line ends are dropped.
Command parse_command(const std::string& line) {
  Command command;
  std::istringstream words(line.substr(0, line.find(" #")));
  std::string word;
  words >> word;
  static const std::regex plain("[a-z][a-z-]*");
  bool leading = true;
  while (words >> word) {
    leading = leading && std::regex_match(word, plain);
    if (leading) command.subcommands.push_back(word);
    if (word.starts_with("--")) command.flags.push_back(word.substr(0, word.find('=')));
  }
  return command;
}

struct Outcome {
  int code = -1;
  std::string output;
};

Outcome run(const std::string& command_line) {
  Outcome outcome;
  FILE* pipe = popen((command_line + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> buffer;
  while (const size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) outcome.output.append(buffer.data(), n);
  const int status = pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

bool is_executable(const std::string& path) {
  const std::filesystem::path full = std::filesystem::path(FP_SOURCE_DIR) / path;
  using std::filesystem::perms;
  return exists_in_project(path) && (std::filesystem::status(full).permissions() & perms::owner_exec) != perms::none;
}

TEST_CASE("every link in a document leads to a file") {
  Problems problems("links");
  for (const std::string& path : project_files({""}, {".md"})) {
    const std::string folder = std::filesystem::path(path).parent_path().string();
    for (const std::string& target : local_links(split_markdown(read_project_file(path)).prose)) {
      const std::string file = (std::filesystem::path(folder) / target).lexically_normal().generic_string();
      if (!exists_in_project(file)) problems.add(path + " -> " + target, "there is no such file");
    }
  }
  CHECK(problems.report() == "");
}

TEST_CASE("scripts and configs named in README and CONTRIBUTING exist") {
  static const std::regex script(R"((?:^|[\s`])\.?/?(scripts/[\w/-]+(?:\.txt|\.sbatch|\.py)?))"),
      config(R"(configs/[\w/.-]+\.yaml)");
  size_t scripts_seen = 0;
  for (const std::string& path : kGuides) {
    const std::string text = read_project_file(path);
    for (std::sregex_iterator it(text.begin(), text.end(), script), end; it != end; ++it, ++scripts_seen) {
      INFO(path << " names " << (*it)[1]);
      const std::string name = (*it)[1];
      const bool is_read = name.ends_with(".txt") || name.ends_with(".py");
      CHECK((is_executable(name) || (is_read && exists_in_project(name))));
    }
    for (std::sregex_iterator it(text.begin(), text.end(), config), end; it != end; ++it) {
      INFO(path << " names " << it->str());
      CHECK(exists_in_project(it->str()));
    }
  }
  CHECK(scripts_seen >= 2);
}

// Paths in backticks that a page names, such as `lib/ops/ops.h`; those with a placeholder in capitals are left out.
std::vector<std::string> named_paths(const std::string& text) {
  static const std::regex path("`((?:lib|apps|cuda|tests|docs|configs|scripts|cmake|third_party)/[a-z0-9_./-]+)`");
  std::vector<std::string> paths;
  for (std::sregex_iterator it(text.begin(), text.end(), path), end; it != end; ++it) paths.push_back((*it)[1]);
  return paths;
}

TEST_CASE("every file that CONTRIBUTING and the architecture page name exists") {
  Problems problems("links");
  for (const std::string path : {"CONTRIBUTING.md", "docs/architecture.md"}) {
    const std::vector<std::string> named = named_paths(read_project_file(path));
    CHECK(named.size() > 20);
    for (const std::string& file : named)
      if (!std::filesystem::exists(std::filesystem::path(FP_SOURCE_DIR) / file))
        problems.add(path + " -> " + file, "there is no such file");
  }
  CHECK(problems.report() == "");
  CHECK(named_paths("see `lib/a/b.h`, `tests/x/NAME_fuzz.cpp` and `lib/c`") ==
        std::vector<std::string>{"lib/a/b.h", "lib/c"});
}

// Returns the text of a list of CONTRIBUTING's "How to add", from its title to that of the next list.
std::string list_to_add(const std::string& contributing, const std::string& title) {
  const size_t begin = contributing.find("\n**" + title + ".**");
  if (begin == std::string::npos) return "";
  return contributing.substr(begin, contributing.find("\n**", begin + 1) - begin);
}

TEST_CASE("the lists of how to add a family and a schedule name every file that names the newest one") {
  const std::string contributing = read_project_file("CONTRIBUTING.md");
  Problems problems("lists");
  for (const auto& [title, newest] : {std::pair{"A model family", "qwen3"}, {"A pipeline schedule", "dualpipev"}}) {
    const std::string list = list_to_add(contributing, title);
    CHECK(named_paths(list).size() > 20);
    for (const std::string& path : project_files({"lib", "apps", "cuda", "tests", "scripts", "configs", "docs"},
                                                 {".h", ".cpp", ".cu", ".py", ".md", ".txt", ".yaml"})) {
      const bool preset = path.starts_with("configs/models/");  // one of them stands for all
      if (preset || path == "tests/repo/test_documents.cpp" ||
          read_project_file(path).find(newest) == std::string::npos)
        continue;
      if (list.find("`" + path + "`") == std::string::npos)
        problems.add(
            path, std::string("names ") + newest + ", but the list of CONTRIBUTING does not name the file: " + title);
    }
  }
  CHECK(problems.report() == "");
  CHECK(list_to_add("x\n**A b.** c\nd\n**E f.** g", "A b") == "\n**A b.** c\nd");
}

// Returns the fault of one documented command according to its --help; "" when it exists with all its flags. For a
// subcommand that does not exist --help is that of the level above, so the usage line has to name it.
std::string fault_of(const Command& command, const Outcome& help) {
  std::string usage = "fptrain";
  for (const std::string& word : command.subcommands) usage += " " + word;
  if (help.code != 0 || help.output.find(usage + " ") == std::string::npos) return "no such command";
  for (const std::string& flag : command.flags) {
    if (help.output.find(flag) == std::string::npos) return "no flag " + flag;
  }
  return "";
}

TEST_CASE("fptrain commands in README and CONTRIBUTING exist, with their flags") {
  static const std::regex is_command(R"(^(\S*/)?fptrain\s)");
  std::map<std::string, Outcome> help;  // by subcommands
  std::string faults;
  for (const std::string& path : kGuides) {
    for (const std::string& line : split_markdown(read_project_file(path)).code_lines) {
      const std::string direct = without_launcher(line);
      if (!std::regex_search(direct, is_command)) continue;
      const Command command = parse_command(direct);
      std::string key;
      for (const std::string& word : command.subcommands) key += " " + word;
      if (!help.count(key)) help[key] = run(std::string(FP_EXECUTABLE) + key + " --help");
      if (const std::string fault = fault_of(command, help[key]); !fault.empty()) faults += line + ": " + fault + "\n";
    }
  }
  CHECK(faults == "");
  CHECK(help.size() >= 3);
}

TEST_CASE("the run spec in README is valid, and an error in it is found") {
  const std::string spec = split_markdown(read_project_file("README.md")).yaml;
  REQUIRE(spec.find("model:") != std::string::npos);
  std::string folder = (std::filesystem::temp_directory_path() / "fptrain-readme-XXXXXX").string();
  REQUIRE(mkdtemp(folder.data()) != nullptr);
  std::string text;
  for (int i = 0; i < 400; ++i) text += "line " + std::to_string(i) + "\n";
  fp::write_file_atomically(folder + "/text.txt", text);
  fp::write_file_atomically(folder + "/good.yaml", spec);
  fp::write_file_atomically(folder + "/bad.yaml", std::regex_replace(spec, std::regex("optimizer"), "optimiser"));

  const std::string fptrain = FP_EXECUTABLE;
  const std::string data = folder + "/data";
  const Outcome prepared =
      run(fptrain + " data prepare --tokenizer bytes --documents line --out " + data + " " + folder + "/text.txt");
  INFO(prepared.output);
  CHECK(prepared.code == 0);
  const std::string set = " --set 'data.train=[{path: " + data + "}]'";
  const Outcome good = run(fptrain + " config check " + folder + "/good.yaml" + set);
  INFO(good.output);
  CHECK(good.code == 0);
  const Outcome bad = run(fptrain + " config check " + folder + "/bad.yaml" + set);
  CHECK(bad.code == 2);
  CHECK(bad.output.find("optimizer") != std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST_CASE("the document parser finds links, commands and flags") {
  const MarkdownParts parts =
      split_markdown("see [a](b.md#part) ![i](c/d.svg)\n```sh\nfptrain train x.yaml\n```\n<img src=\"e.png\">\n");
  CHECK(local_links(parts.prose) == std::vector<std::string>{"b.md", "c/d.svg", "e.png"});
  CHECK(parts.code_lines == std::vector<std::string>{"fptrain train x.yaml"});
  CHECK(local_links("[web](https://example.org/x) [here](#top)").empty());
  const Command command =
      parse_command("build/release/fptrain data prepare --out=DIR --vocab 4 text.txt  # --not this");
  CHECK(command.subcommands == std::vector<std::string>{"data", "prepare"});
  CHECK(command.flags == std::vector<std::string>{"--out", "--vocab"});
  CHECK(without_launcher("mpirun --oversubscribe -np 8 a/fptrain train x.yaml") == "a/fptrain train x.yaml");
  CHECK(without_launcher("srun --mpi=pmix fptrain train x.yaml  # all") == "fptrain train x.yaml  # all");
  CHECK(without_launcher("mpirun -np 2 hostname") == "mpirun -np 2 hostname");
  CHECK(fault_of(command, {0, "Usage: build/fptrain data prepare [OPTIONS] --out TEXT --vocab INT"}) == "");
  CHECK(fault_of(command, {0, "Usage: fptrain data prepare [OPTIONS] --out"}) == "no flag --vocab");
  CHECK(fault_of(command, {0, "Usage: fptrain [OPTIONS] SUBCOMMAND --out --vocab"}) == "no such command");
}

}  // namespace
}  // namespace fp::test
