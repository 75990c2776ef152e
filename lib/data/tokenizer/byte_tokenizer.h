// The simplest tokenizer: an id per byte value, and one that ends a document.
#pragma once

#include <array>

#include "data/tokenizer.h"

namespace fp {

class ByteTokenizer : public Tokenizer {
 public:
  static constexpr const char* kType = "fptrain-bytes";  // "type" in its file form
  static constexpr int kVersion = 1;

  ByteTokenizer();
  // There are no written-out special tokens: both ways to read them are the same.
  std::unique_ptr<Encoder> make_encoder(SpecialText special) const override;
  int32_t vocab_size() const override { return 257; }
  int32_t eot() const override { return 256; }
  std::string_view bytes_of(int32_t id) const override;
  bool is_id(int32_t id) const override { return id >= 0 && id <= 256; }
  std::string_view kind() const override { return "bytes"; }

 private:
  std::array<char, 256> bytes_;
};

}  // namespace fp
