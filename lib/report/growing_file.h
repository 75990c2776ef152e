// A file that only grows, and outlives a full disk.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace fp {

class GrowingFile {
 public:
  // Opens or creates it, cut to its first `keep` bytes. DataError when that is not possible.
  GrowingFile(const std::filesystem::path&, int64_t keep);
  ~GrowingFile();  // tries again what is left
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;

  // With a single write, so that a killed process loses nothing that append() returned from. DataError when the disk
  // does not take it; then it goes out before what comes next.
  void append(std::string_view);

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  std::string waiting_;
};

}  // namespace fp
