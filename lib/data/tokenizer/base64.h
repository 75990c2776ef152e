// Base64 with padding (RFC 4648, section 4).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace fp {

std::string base64_encode(std::string_view bytes);
// Returns nothing when `text` is not the base64 form of any bytes.
std::optional<std::string> base64_decode(std::string_view text);

}  // namespace fp
