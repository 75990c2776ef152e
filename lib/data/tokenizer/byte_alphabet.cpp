#include "data/tokenizer/byte_alphabet.h"

#include "base/utf8.h"

namespace fp {

ByteAlphabet::ByteAlphabet() {
  byte_of_.fill(-1);
  char32_t next = 0x100;
  for (unsigned b = 0; b < 256; ++b) {
    const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    character_of_[b] = printable ? b : next++;
    byte_of_[character_of_[b]] = static_cast<int16_t>(b);
  }
}

std::string ByteAlphabet::to_printable(std::string_view bytes) const {
  std::string text;
  for (const char b : bytes) utf8_append(character_of_[static_cast<uint8_t>(b)], text);
  return text;
}

std::optional<std::string> ByteAlphabet::from_printable(std::string_view text) const {
  std::string bytes;
  while (!text.empty()) {
    const size_t length = utf8_character(text);
    if (length == 0) return std::nullopt;
    const char32_t c = utf8_decode(text.substr(0, length));
    if (c >= kCharacters || byte_of_[c] < 0) return std::nullopt;
    bytes += static_cast<char>(static_cast<uint8_t>(byte_of_[c]));
    text.remove_prefix(length);
  }
  return bytes;
}

std::array<uint8_t, 256> ByteAlphabet::in_order() const {
  std::array<uint8_t, 256> order{};
  size_t n = 0;
  for (const int16_t b : byte_of_)
    if (b >= 0) order[n++] = static_cast<uint8_t>(b);
  return order;
}

}  // namespace fp
