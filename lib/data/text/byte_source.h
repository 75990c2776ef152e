// Reads the decompressed bytes of a plain, gzip (.gz) or Zstandard (.zst) file as a stream.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace fp {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Reads up to out.size() bytes into `out` and returns their number: fewer than asked only at the end, 0 after it.
  // Uses at most 128 MiB of memory beside `out`, whatever the file expands to. Throws DataError naming the file when it
  // cannot be read, is not of the kind its name says, is truncated or fails its checksum; InfrastructureError when
  // transient errors last (io/retry.h).
  virtual size_t read(std::span<char> out) = 0;
  // Number of bytes of the file on disk that were consumed so far.
  virtual uint64_t position() const = 0;
};

// Opens a file for reading; its last extension selects the decompression. Throws DataError when the file is missing or
// not a regular file.
std::unique_ptr<ByteSource> open_source(const std::filesystem::path& path);

}  // namespace fp
