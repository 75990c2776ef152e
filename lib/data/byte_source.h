// Streams the bytes of a plain, gzip (.gz) or Zstandard (.zst) file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace fp {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills `out` and returns how many bytes it got: less than asked only at the end, 0 after it.
  // DataError naming the file when it cannot be read, is not what its name says, is truncated or fails its checksum.
  virtual size_t read(std::span<char> out) = 0;
  // Bytes of the file on disk consumed so far.
  virtual uint64_t position() const = 0;
};

// The kind goes by the last part of the name. DataError when the file is missing or not a regular file.
std::unique_ptr<ByteSource> open_source(const std::filesystem::path& path);

}  // namespace fp
