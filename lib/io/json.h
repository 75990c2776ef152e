// The JSON reader for all files and lines; they may be foreign, so they are read within limits.
//
// A text that is too long or nested too deeply is refused: copying, printing and destroying values recurses, and the
// stack is finite. By default an object with a duplicate key is refused, as programs do not agree on which of the two
// values counts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace fp {

// Thrown for text that is not JSON or exceeds a limit.
struct JsonError : DataError {
  using DataError::DataError;
};

// Limits of a text. Its parsed values take up to 30 times the memory of the text.
struct JsonLimits {
  uint64_t bytes = uint64_t{64} << 20;
  int depth = 64;  // maximum nesting of lists and objects
  // Whether duplicate keys of an object are refused. Otherwise the last value counts, as in Python.
  bool keys_once = true;
};
// Limits for messages from other ranks of the run.
constexpr JsonLimits kJsonOfRanks = {.bytes = UINT64_MAX};

// Parses JSON (RFC 8259, UTF-8). Throws JsonError for text that is not JSON or exceeds a limit, as "WHERE: line 3,
// column 14: ..."; for text of one line "WHERE: column 14: ...". Columns are bytes, counted from 1.
nlohmann::json parse_json(std::string_view text, const std::string& where, const JsonLimits& = {});
// As parse_json(), but objects keep the order of their keys.
nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& where, const JsonLimits& = {});

// Returns the content of a file that is to be parsed within `limits`. Throws JsonError, without reading any of it, if
// it is too large.
std::string read_json_file(const std::filesystem::path& path, const JsonLimits& = {});
// Reads and parses a file.
nlohmann::json read_json(const std::filesystem::path& path, const JsonLimits& = {});

}  // namespace fp
