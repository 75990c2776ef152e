// GPT-2's printable alphabet: each byte value is written as one visible character, so that a vocabulary is plain JSON
// text. Bytes 33-126, 161-172 and 174-255 are written as themselves, the other 68, in increasing order, as U+0100,
// U+0101, ...
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fp {

class ByteAlphabet {
 public:
  ByteAlphabet();
  std::string to_printable(std::string_view bytes) const;
  // Returns nothing when `text` contains a character outside the alphabet.
  std::optional<std::string> from_printable(std::string_view text) const;
  // Returns the byte values ordered by their character: the order of the first 256 ids of GPT-2.
  std::array<uint8_t, 256> in_order() const;

 private:
  static constexpr char32_t kCharacters = 0x100 + 68;
  std::array<char32_t, 256> character_of_{};
  std::array<int16_t, kCharacters> byte_of_{};
};

}  // namespace fp
