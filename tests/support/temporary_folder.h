// Temporary folders and files of tests.
#pragma once

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace fp::test {

// A new folder, removed at the end of its scope.
struct TemporaryFolder {
  std::filesystem::path path;

  explicit TemporaryFolder(const std::filesystem::path& parent = std::filesystem::temp_directory_path()) {
    std::string name = (parent / "fptrain-test-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::filesystem::path operator/(const std::filesystem::path& name) const { return path / name; }
};

// A temporary folder in memory (/dev/shm) where possible, for tests that sync often.
struct MemoryFolder : TemporaryFolder {
  MemoryFolder()
      : TemporaryFolder(::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : std::filesystem::temp_directory_path()) {}
};

// Writes a file; creates its parent folders.
inline void write_text(const std::filesystem::path& path, std::string_view text) {
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  REQUIRE(file.good());
}

}  // namespace fp::test
