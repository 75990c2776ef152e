#include "data/tokenizer/byte_tokenizer.h"

#include "base/error.h"

namespace fp {
namespace {

class ByteEncoder : public Encoder {
 public:
  void append(std::string_view text, std::vector<int32_t>& ids) override {
    for (const char c : text) ids.push_back(static_cast<uint8_t>(c));
  }
};

}  // namespace

ByteTokenizer::ByteTokenizer() : Tokenizer(fmt::format("{{\"type\": \"{}\", \"version\": {}}}\n", kType, kVersion)) {
  for (size_t b = 0; b < bytes_.size(); ++b) bytes_[b] = static_cast<char>(static_cast<uint8_t>(b));
}

std::unique_ptr<Encoder> ByteTokenizer::make_encoder(SpecialText) const { return std::make_unique<ByteEncoder>(); }

std::string_view ByteTokenizer::bytes_of(int32_t id) const {
  if (!is_id(id)) throw DataError(fmt::format("token id {} is not in the vocabulary of {} ids", id, vocab_size()));
  return id == eot() ? std::string_view() : std::string_view(&bytes_[static_cast<size_t>(id)], 1);
}

}  // namespace fp
