// The safetensors format (https://github.com/huggingface/safetensors): the u64 length of a JSON header, the header, the
// tensors. Everything is little-endian and row-major.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/shape.h"

namespace fp {

struct SafetensorsEntry {
  std::string dtype;            // any dtype of the format: "F32", "BF16", "I64", ...
  std::vector<int64_t> shape;   // any rank
  uint64_t begin = 0, end = 0;  // byte offsets from the end of the header

  bool operator==(const SafetensorsEntry&) const = default;
};

struct SafetensorsHeader {
  std::map<std::string, SafetensorsEntry> tensors;
  std::map<std::string, std::string> metadata;
  uint64_t data_start = 0;  // offset of the data in the file

  bool operator==(const SafetensorsHeader&) const = default;
};

// Parses the header in the first bytes of a file of `file_bytes` bytes; `bytes` must contain at least 8 + header length
// of them, or the whole file. Throws DataError naming `where` for anything the format does not allow: sizes that do not
// match the shapes, overlaps, holes, duplicate names, a header beyond 100 MB or beyond the file. Allocates no more than
// a small multiple of `bytes`.
SafetensorsHeader parse_safetensors(std::string_view bytes, uint64_t file_bytes, const std::string& where);
SafetensorsHeader read_safetensors_header(const std::filesystem::path&);

// Returns the first bytes of a file with these tensors, laid out as the reference writer does: wider types first, then
// by name, data 8-aligned. Sets begin, end and data_start.
std::string lay_out_safetensors(SafetensorsHeader&);

}  // namespace fp
