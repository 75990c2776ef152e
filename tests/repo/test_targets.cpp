// Every source file is compiled, and every test file is part of a test executable.
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "io/filesystem.h"
#include "repo/source_tree.h"

namespace fp::test {
namespace {

// Returns the files that a CMake unity file includes.
std::vector<std::string> sources_in_unity_file(const std::filesystem::path& unity) {
  const std::string include = "#include \"";
  std::vector<std::string> sources;
  for (const std::string& line : split_lines(fp::read_file(unity)))
    if (line.starts_with(include)) sources.push_back(line.substr(include.size(), line.rfind('"') - include.size()));
  return sources;
}

// Sources that the build compiles, from the repository root.
std::set<std::string> compiled_files() {
  const std::filesystem::path source_root = FP_SOURCE_DIR, binary = FP_BINARY_DIR;
  std::set<std::string> files;
  for (const auto& entry : nlohmann::json::parse(fp::read_file(binary / "compile_commands.json"))) {
    const std::filesystem::path file = entry.at("file").get<std::string>();
    const bool is_unity = file.parent_path().filename() == "Unity";
    for (const std::string& source : is_unity ? sources_in_unity_file(file) : std::vector{file.string()})
      files.insert(std::filesystem::path(source).lexically_relative(source_root).generic_string());
  }
  return files;
}

// Returns whether this configuration leaves a file out: kernels on the CPU and mpirun tests with a sanitizer, and CUDA
// code without a CUDA compiler.
bool is_left_out(const std::string& path) {
#ifdef FP_SANITIZED
  if (path.starts_with("tests/cuda_host/") || path.starts_with("tests/ranks/")) return true;
#endif
#ifdef FP_HAS_CUDA
  return path.starts_with("cuda/stub/");
#else
  const bool everywhere = path.starts_with("cuda/rules/") || path.starts_with("cuda/stub/");
  const bool nccl = path.starts_with("tests/cuda/nccl/") || path == "tests/cuda/stub/nccl_stub.cpp";
  return path.starts_with("tests/cuda_gpu/") || nccl || (path.starts_with("cuda/") && !everywhere);
#endif
}

TEST_CASE("every source file is in a target") {
  const std::set<std::string> compiled = compiled_files();
  std::string never_built;
  for (const std::string& path : project_files({"lib", "apps", "cuda", "tests"}, {".cpp", ".cu"})) {
    if (!compiled.count(path) && !is_left_out(path)) never_built += path + "\n";
  }
  CHECK(never_built == "");
}

TEST_CASE("every test folder is listed and calls fp_tests") {
  const std::string list = read_project_file("tests/CMakeLists.txt");
  std::set<std::string> folders;
  for (const std::string& path : project_files({"tests"}, {".cpp"})) {
    const std::string text = read_project_file(path);
    const std::string name = std::filesystem::path(path).filename().string();
    // In the first column: a TEST_CASE inside a string is not one.
    if (text.find("\nTEST_CASE(") == std::string::npos && text.find("\nTEMPLATE_TEST_CASE(") == std::string::npos)
      continue;
    INFO(path << " has test cases");
    CHECK(name.starts_with("test_"));
    folders.insert(path.substr(6, path.find('/', 6) - 6));
  }
  REQUIRE(folders.count("repo") == 1);
  for (const std::string& folder : folders) {
    INFO("tests/" << folder);
    CHECK(list.find(" " + folder) != std::string::npos);
    CHECK(read_project_file("tests/" + folder + "/CMakeLists.txt").find("fp_tests(" + folder) != std::string::npos);
  }
}

}  // namespace
}  // namespace fp::test
