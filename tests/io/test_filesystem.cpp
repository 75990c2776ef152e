#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>

#include "base/error.h"
#include "io/filesystem.h"
#include "support/nobody.h"
#include "support/temporary_folder.h"

namespace fs = std::filesystem;
using fp::test::TemporaryFolder;

namespace {

// Returns the message of the DataError that f throws.
template <class F>
std::string data_error(F&& f) {
  try {
    f();
  } catch (const fp::DataError& e) {
    return e.what();
  }
  return "no DataError";
}

}  // namespace

TEST_CASE("a file written atomically reads back and leaves no temporary file") {
  const TemporaryFolder folder;
  const fs::path path = folder / "file";
  std::string content(300000, 'x');
  content[1] = '\0';
  content[299999] = '\n';
  fp::write_file_atomically(path, content);
  CHECK(fp::read_file(path) == content);
  fp::write_file_atomically(path, "shorter");
  CHECK(fp::read_file(path) == "shorter");
  fp::write_file_atomically(path, "");
  CHECK(fp::read_file(path).empty());
  CHECK(std::distance(fs::directory_iterator(folder.path), fs::directory_iterator()) == 1);
}

TEST_CASE("a failed write leaves the old file unchanged") {
  const TemporaryFolder folder;
  const fs::path path = folder / "file";
  fp::write_file_atomically(path, "old");
  // The target is a folder that is not empty: renaming over it fails after the temporary file was written.
  fs::create_directories(folder / "occupied/inner");
  CHECK(data_error([&] { fp::write_file_atomically(folder / "occupied", "new"); }).find("occupied") !=
        std::string::npos);
  CHECK(data_error([&] { fp::write_file_atomically(folder / "missing/file", "new"); }).find("missing/file") !=
        std::string::npos);
  CHECK(fp::read_file(path) == "old");
}

TEST_CASE("errors name the path and the reason") {
  const TemporaryFolder folder;
  for (const std::string& message :
       {data_error([&] { fp::read_file(folder / "absent"); }), data_error([&] { fp::hash_file(folder / "absent"); }),
        data_error([&] { fp::fsync_path(folder / "absent"); }),
        data_error([&] { fp::MappedFile(folder / "absent"); })}) {
    INFO(message);
    CHECK(message.find((folder / "absent").string()) == 0);
    CHECK(message.find("No such file") != std::string::npos);
  }
  CHECK(data_error([&] { fp::MappedFile(folder / "."); }).find("not a regular file") != std::string::npos);
}

TEST_CASE("an unreadable file is not reported as missing") {
  const TemporaryFolder folder;
  fs::permissions(folder / ".", fs::perms::all);
  fp::write_file_atomically(folder / "there", "x");
  CHECK(fp::path_exists(folder / "there"));
  CHECK_FALSE(fp::path_exists(folder / "absent"));
  CHECK_FALSE(fp::path_exists(folder / "there/below a file"));
  fs::create_directory(folder / "closed");
  fs::permissions(folder / "closed", fs::perms::none);
  {
    const fp::test::Nobody nobody;
    CHECK(data_error([&] { fp::path_exists(folder / "closed/x"); }) ==
          (folder / "closed/x").string() + ": Permission denied");
    CHECK(data_error([&] { fp::matching_files(folder / "closed/x"); }) ==
          (folder / "closed/x").string() + ": Permission denied");
    try {
      static_cast<void>(fs::exists(folder / "closed/x"));
      FAIL("seen");
    } catch (const fs::filesystem_error& e) {
      CHECK(fp::message_of(e) == (folder / "closed/x").string() + ": Permission denied");
    }
  }
  fs::permissions(folder / "closed", fs::perms::owner_all);
}

TEST_CASE("hashes of bytes and of files agree and differ by content") {
  const TemporaryFolder folder;
  // More than one read block, so that the streamed hash has several parts.
  std::string content(3 * (1 << 20) + 17, '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 2654435761u >> 24);
  fp::write_file_atomically(folder / "file", content);
  const std::string hash = fp::hash_file(folder / "file");
  CHECK(hash.size() == 32);
  CHECK(hash == fp::hash_bytes(content.data(), content.size()));
  content[1 << 20] ^= 1;
  CHECK(hash != fp::hash_bytes(content.data(), content.size()));
  // XXH3-128 of nothing, as published with the algorithm.
  CHECK(fp::hash_bytes("", 0) == "99aa06d3014798d86001c324468d497f");
}

TEST_CASE("a mapped file has the file's bytes, is movable and may be empty") {
  const TemporaryFolder folder;
  fp::write_file_atomically(folder / "file", std::string("\1\0\0\0\2\0\0\0\3\0", 10));
  fp::MappedFile map(folder / "file");
  CHECK(map.size() == 10);
  REQUIRE(map.as<uint32_t>().size() == 2);  // the incomplete third element is left out
  CHECK(map.as<uint32_t>()[1] == 2);
  const std::byte* data = map.data();
  fp::MappedFile other(std::move(map));
  CHECK(other.data() == data);
  fp::MappedFile third;
  third = std::move(other);
  CHECK(third.as<uint16_t>()[2] == 2);
  fp::write_file_atomically(folder / "empty", "");
  const fp::MappedFile empty(folder / "empty");
  CHECK(empty.size() == 0);
  CHECK(empty.as<uint16_t>().empty());
}
