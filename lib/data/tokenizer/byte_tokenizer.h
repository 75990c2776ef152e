// The simplest tokenizer: one id per byte value, and one that ends a document.
#pragma once

#include <array>

#include "data/tokenizer/tokenizer.h"

namespace fp {

class ByteTokenizer : public Tokenizer {
 public:
  static constexpr const char* kType = "fptrain-bytes";  // "type" in its file form
  static constexpr int kVersion = 1;

  ByteTokenizer();
  // No special token has a written form, so both values of SpecialText have the same effect.
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
