// Reads arrays of token ids in files as one stream, in place.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/formats/data_file.h"

namespace fp {

enum class TokenType { u8, i8, u16, i16, u32, i32, i64 };  // little endian
uint64_t width_of(TokenType type);                         // bytes of an id

class TokenStream {
 public:
  TokenStream() = default;
  explicit TokenStream(TokenType type) : type_(type) {}

  // Appends `tokens` ids that begin `offset` bytes into the file (of any alignment); they must lie inside it.
  void add(std::shared_ptr<const DataFile> file, uint64_t offset, uint64_t tokens);

  uint64_t size() const { return ends_.empty() ? 0 : ends_.back(); }
  // Copies tokens [begin, begin + out.size()), which must lie inside the stream. Throws DataError naming the file and
  // the position when an id is not in [0, highest], and DataFile's errors. Thread-safe.
  void read(uint64_t begin, std::span<int32_t> out, int64_t highest) const;

  // Returns an XXH3-128 hash of the sizes of the files and of blocks sampled evenly from each, which is fast for files
  // of any size. It distinguishes datasets; it does not prove that every byte is unchanged.
  std::string fingerprint() const;

 private:
  struct Part {
    std::shared_ptr<const DataFile> file;
    uint64_t offset;
  };
  TokenType type_ = TokenType::u16;
  std::vector<Part> parts_;
  std::vector<uint64_t> ends_;  // end of each part, in tokens
};

}  // namespace fp
