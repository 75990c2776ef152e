// An append-only file that survives a full disk.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/file_descriptor.h"

namespace fp {

class GrowingFile {
 public:
  // Opens or creates the file and truncates it to its first `keep` bytes. Throws DataError on failure, for example if
  // the path is a symbolic link.
  GrowingFile(const std::filesystem::path&, int64_t keep);
  ~GrowingFile();  // tries once more to write what is left
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;

  // Appends with write(2), unbuffered, so that a killed process loses nothing for which append() returned. Throws
  // DataError when the disk refuses the text, which is then written before the next text.
  void append(std::string_view);

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
  std::string waiting_;
};

}  // namespace fp
