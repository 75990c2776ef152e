#include <catch2/catch.hpp>
#include <fstream>

#include "cuda/rules/library_search.h"
#include "support/temporary_folder.h"

using namespace fp::cuda;
namespace fs = std::filesystem;
using fp::test::TemporaryFolder;

namespace {

fs::path put(const fs::path& file) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << "x";
  return file;
}

}  // namespace

TEST_CASE("libraries are searched by name, beside the executable, in wheels and in toolkits") {
  const TemporaryFolder dir;
  const std::string name = "libcudnn.so.9";
  const fs::path beside = put(dir.path / "bundle/lib" / name);
  const fs::path wheel = put(dir.path / "env/lib/python3.12/site-packages/nvidia/cudnn/lib" / name);
  put(dir.path / "env/lib/python3.12/site-packages/nvidia/cu13/lib/libcublasLt.so.13");
  const fs::path toolkit = put(dir.path / "cuda/lib64" / name);
  const SearchPlaces places{dir.path / "bundle/bin", {dir.path / "env"}, {dir.path / "cuda", "/nowhere"}};
  CHECK(library_candidates(name, places) == std::vector<std::string>{name, beside, wheel, toolkit});
  CHECK(library_candidates("libnothing.so.1", places) == std::vector<std::string>{"libnothing.so.1"});
}

TEST_CASE("the search places of this process include its own folder") {
  CHECK(fs::exists(search_places().executable));
  CHECK_FALSE(search_places().toolkits.empty());
}

TEST_CASE("the search places of this process include the environment of the python3 in PATH") {
  const TemporaryFolder dir;
  put(dir.path / "env/bin/python3");
  const std::string before = getenv("PATH");
  setenv("PATH", ((dir.path / "empty").string() + ":" + (dir.path / "env/bin").string() + ":" + before).c_str(), 1);
  const SearchPlaces places = search_places();
  setenv("PATH", before.c_str(), 1);
  CHECK(places.environments.back() == dir.path / "env");
}

TEST_CASE("the message for a missing library says what to do") {
  const std::string line = library_missing("libcudnn.so.9", "nvidia-cudnn-cu13", "no such file");
  for (const char* part :
       {"libcudnn.so.9", "no such file", "module load", "pip install nvidia-cudnn-cu13", "LD_LIBRARY_PATH"})
    CHECK(line.find(part) != std::string::npos);
}
