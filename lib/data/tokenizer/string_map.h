// Hash maps with string keys that can be looked up with a string_view.
#pragma once

#include <xxhash.h>

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace fp {

struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return XXH3_64bits(text.data(), text.size()); }
};

template <class Value>
using StringMap = std::unordered_map<std::string, Value, StringHash, std::equal_to<>>;

}  // namespace fp
