#include <cstdint>

#include "base/error.h"
#include "config/mapping/mapping.h"
#include "config/mapping/name_pattern.h"
#include "target.h"

// An accepted mapping is invertible: a name determines its rule and the numbers in it.
FP_FUZZ_TARGET(mapping) {
  try {
    const fp::MappingSpec mapping = fp::parse_mapping({reinterpret_cast<const char*>(data), size}, "input");
    for (const fp::MappingRule& rule : mapping.rules) {
      const fp::NamePattern source(rule.source);
      fp::NamePattern::Numbers numbers;
      for (const std::string& n : source.numbers()) numbers[n] = static_cast<int64_t>(size);
      for (const std::string& name : source.names(numbers)) {
        if (source.match(name) != numbers) __builtin_trap();
        for (const fp::MappingRule& other : mapping.rules)
          if (&other != &rule && fp::NamePattern(other.source).match(name)) __builtin_trap();
      }
    }
  } catch (const fp::UserError&) {
  }
  return 0;
}
