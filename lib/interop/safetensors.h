// The safetensors container (https://github.com/huggingface/safetensors): u64 length of a JSON header, the header, the
// tensors. Everything little-endian, row-major.
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
  std::string dtype;            // "F32", "BF16", "I64", ...: any the format knows
  std::vector<int64_t> shape;   // any rank
  uint64_t begin = 0, end = 0;  // bytes, from the end of the header

  bool operator==(const SafetensorsEntry&) const = default;
};

struct SafetensorsHeader {
  std::map<std::string, SafetensorsEntry> tensors;
  std::map<std::string, std::string> metadata;
  uint64_t data_start = 0;  // in the file

  bool operator==(const SafetensorsHeader&) const = default;
};

// Reads a header from the first bytes of a file (8 + header length of them at least, or the whole file) of `file_bytes`
// bytes. DataError naming `where` for anything the format does not allow: sizes that do not fit the shapes, overlaps,
// holes, duplicate names, a header beyond 100 MB or beyond the file. Allocates no more than a small multiple of
// `bytes`.
SafetensorsHeader parse_safetensors(std::string_view bytes, uint64_t file_bytes, const std::string& where);
SafetensorsHeader read_safetensors_header(const std::filesystem::path&);

// The first bytes of a file with these tensors, laid out as the reference writer does: wider types first, then by name,
// data 8-aligned. Fills in begin, end and data_start.
std::string lay_out_safetensors(SafetensorsHeader&);

}  // namespace fp
