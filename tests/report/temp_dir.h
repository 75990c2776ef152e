// A folder that lives as long as a test.
#pragma once

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "support/temporary_folder.h"

namespace fp::test {

using TempDir = testing::TemporaryFolder;

// Writes a file and the folders above it.
inline void put_file(const std::filesystem::path& file, const std::string& content) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream out(file, std::ios::binary);
  out << content;
  REQUIRE(out.flush());
}

}  // namespace fp::test
