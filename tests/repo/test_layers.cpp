// Dependencies between modules point one way: every #include is checked against lib/layers.txt.
#include <catch2/catch.hpp>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "repo/source_tree.h"

namespace fp::test {
namespace {

using Layers = std::map<std::string, std::set<std::string>>;

// "module: allowed..." lines; a name may only refer to lines above it.
Layers parse_layers(const std::string& text, Problems& problems) {
  Layers layers;
  for (const std::string& line : split_lines(text)) {
    if (line.empty() || line.front() == '#') continue;
    const size_t colon = line.find(':');
    const std::string module = trim(line.substr(0, colon));
    std::set<std::string> allowed;
    std::istringstream names(colon == std::string::npos ? "" : line.substr(colon + 1));
    for (std::string name; names >> name;) {
      const std::string owner = layers.count(name) ? name : name.substr(0, name.find('/'));
      if (!layers.count(owner)) problems.add("lib/layers.txt", module + " names " + name + ", which no line above has");
      allowed.insert(name);
    }
    layers[module] = allowed;
  }
  return layers;
}

// Returns the longest module name that holds `path` ("ops/cpu/isa.h"); "" when there is none.
std::string module_of(const std::string& path, const Layers& layers) {
  for (size_t slash = path.rfind('/'); slash != std::string::npos && slash > 0; slash = path.rfind('/', slash - 1)) {
    if (std::string folder = path.substr(0, slash); layers.count(folder)) return folder;
  }
  return "";
}

// Paths of `file` and the headers are relative to lib/ ("sharding/mesh.cpp", "base/error.h"), or begin with apps/ or
// cuda/.
void check_includes(const std::string& file, const std::string& text, const Layers& layers, Problems& problems) {
  static const std::regex include_line(R"(^\s*#\s*include\s*"([^"]+)\")");
  const std::string module = module_of(file, layers);
  if (module.empty()) return problems.add(file, "its folder is not a module of lib/layers.txt");
  const std::string folder = file.substr(0, file.rfind('/') + 1);
  for (const std::string& line : split_lines(text)) {
    std::smatch match;
    if (!std::regex_search(line, match, include_line)) continue;
    const std::string header = match[1];
    if (module == "apps" && header.find('/') == std::string::npos && exists_in_project(folder + header)) continue;
    const std::string target = module_of(header, layers);
    const std::string without_ending = header.substr(0, header.rfind('.'));
    const std::set<std::string>& allowed = layers.at(module);
    const bool layer_under_test = module == "cuda/device" && header.starts_with("cuda_host/");  // its CPU version
    if (layer_under_test) continue;
    if (target.empty() || !exists_in_project((header.starts_with("cuda/") ? "" : "lib/") + header)) {
      problems.add(file, "includes \"" + header + "\", which is no header of lib/ (write paths from lib/)");
    } else if (target != module && !allowed.count(target) && !allowed.count(without_ending)) {
      problems.add(file, "includes \"" + header + "\", but " + module + " may not include " + target);
    }
  }
}

TEST_CASE("every include respects the layers") {
  Problems problems("layers");
  const Layers layers = parse_layers(read_project_file("lib/layers.txt"), problems);
  const auto files = project_files({"lib", "cuda", "apps"}, {".h", ".cpp", ".cu", ".cuh"});
  REQUIRE(files.size() > 10);
  for (const std::string& path : files) {
    const std::string file = starts_with_folder(path, "lib") ? path.substr(4) : path;
    check_includes(file, read_project_file(path), layers, problems);
  }
  CHECK(problems.report() == "");
}

TEST_CASE("every module has a line in layers.txt and every line a module") {
  Problems problems("layers");
  const Layers layers = parse_layers(read_project_file("lib/layers.txt"), problems);
  std::set<std::string> folders = {"apps", "cuda/device"};  // the latter is headers only
  for (const std::string& path : project_files({"lib", "cuda"}, {"CMakeLists.txt"})) {
    const std::string folder = path.substr(0, path.rfind('/'));
    if (folder != "lib" && folder != "cuda") folders.insert(folder.starts_with("lib/") ? folder.substr(4) : folder);
  }
  std::set<std::string> modules;
  for (const auto& [module, allowed] : layers) modules.insert(module);
  CHECK(modules == folders);
}

TEST_CASE("the layer check finds forbidden includes") {
  Problems problems("none");
  const Layers layers = parse_layers("base:\ntensor: base\nops: base tensor\nops/cpu: base ops\n", problems);
  REQUIRE(problems.report() == "");
  check_includes("ops/cpu/isa.cpp", "#include \"ops/ops.h\"\n#include \"base/error.h\"\n#include <vector>\n", layers,
                 problems);
  CHECK(problems.report() == "");
  check_includes("base/error.cpp", "#include \"tensor/tensor.h\"\n", layers, problems);
  CHECK(problems.report() == "base/error.cpp: includes \"tensor/tensor.h\", but base may not include tensor\n");

  Problems wrong("none");
  check_includes("ops/cpu/isa.cpp", "#include \"tensor/tensor.h\"\n", layers, wrong);
  CHECK(wrong.report().find("ops/cpu may not include tensor") != std::string::npos);
  Problems lost("none");
  check_includes("base/error.cpp", "#include \"error.h\"\n", layers, lost);
  CHECK(lost.report().find("no header of lib/") != std::string::npos);
  Problems upward("none");
  parse_layers("base: tensor\ntensor: base\n", upward);
  CHECK(upward.report().find("base names tensor") != std::string::npos);
}

}  // namespace
}  // namespace fp::test
