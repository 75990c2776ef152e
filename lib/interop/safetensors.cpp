#include "interop/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "base/error.h"
#include "base/memory_error.h"
#include "io/json.h"
#include "io/readable_file.h"

namespace fp {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little);

constexpr uint64_t kMaxHeader = 100'000'000;
constexpr int kMaxDepth = 4;  // a shape is a list in an entry in the header

std::optional<uint64_t> bytes_of(std::string_view dtype) {
  static const std::map<std::string_view, uint64_t> kBytes = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"I16", 2}, {"U16", 2}, {"F16", 2},
      {"BF16", 2}, {"I32", 4}, {"U32", 4}, {"F32", 4},     {"I64", 8},     {"U64", 8}, {"F64", 8}};
  const auto it = kBytes.find(dtype);
  return it == kBytes.end() ? std::nullopt : std::optional(it->second);
}

class HeaderParser {
 public:
  HeaderParser(uint64_t data_bytes, const std::string& where) : data_bytes_(data_bytes), where_(where) {}

  void parse(std::string_view text, SafetensorsHeader& header) {
    need(!text.empty() && text.front() == '{', "header", "does not begin with '{'");
    const json root = parse_json(text, where_ + ": header", {.bytes = kMaxHeader, .depth = kMaxDepth});
    for (const auto& [name, value] : root.items())
      if (name == "__metadata__")
        read_metadata(value, header);
      else
        header.tensors[name] = entry(name, value);
    check_layout(header);
  }

 private:
  void need(bool ok, const std::string& what, const std::string& problem) const {
    if (!ok) throw DataError(fmt::format("{}: {}: {}", where_, what.substr(0, 200), problem));
  }

  void read_metadata(const json& value, SafetensorsHeader& header) const {
    need(value.is_object(), "__metadata__", "is not an object");
    for (const auto& [key, text] : value.items()) {
      need(text.is_string(), "__metadata__." + key, "is not text");
      header.metadata[key] = text.get<std::string>();
    }
  }

  uint64_t whole(const json& v, const std::string& name, const char* what) const {
    need(v.is_number_unsigned(), name, fmt::format("{} is not a whole number", what));
    return v.get<uint64_t>();
  }

  SafetensorsEntry entry(const std::string& name, const json& j) const {
    need(j.is_object() && j.contains("dtype") && j.contains("shape") && j.contains("data_offsets"), name,
         "needs dtype, shape and data_offsets");
    SafetensorsEntry e;
    need(j["dtype"].is_string(), name, "dtype is not text");
    e.dtype = j["dtype"].get<std::string>();
    const auto width = bytes_of(e.dtype);
    need(width.has_value(), name, fmt::format("unknown dtype {}", e.dtype.substr(0, 40)));
    const json &shape = j["shape"], &offsets = j["data_offsets"];
    need(shape.is_array(), name, "shape is not a list");
    uint64_t elements = 1;
    for (const json& d : shape) {
      const uint64_t n = whole(d, name, "a dimension");
      constexpr uint64_t kLimit = uint64_t{1} << 50;
      need(n <= kLimit && (n == 0 || elements <= kLimit / n), name, "has too many elements");
      elements *= n;
      e.shape.push_back(static_cast<int64_t>(n));
    }
    need(offsets.is_array() && offsets.size() == 2, name, "data_offsets is not a pair");
    e.begin = whole(offsets[0], name, "an offset");
    e.end = whole(offsets[1], name, "an offset");
    need(e.begin <= e.end && e.end <= data_bytes_, name,
         fmt::format("data_offsets [{}, {}] lie outside the {} bytes of data", e.begin, e.end, data_bytes_));
    need(e.end - e.begin == elements * *width, name,
         fmt::format("has {} bytes, its dtype and shape need {}", e.end - e.begin, elements * *width));
    return e;
  }

  void check_layout(const SafetensorsHeader& header) const {
    std::vector<std::pair<uint64_t, uint64_t>> ranges;
    for (const auto& [name, e] : header.tensors) ranges.emplace_back(e.begin, e.end);
    std::sort(ranges.begin(), ranges.end());
    uint64_t at = 0;
    for (const auto& [begin, end] : ranges) {
      need(begin == at, "data_offsets", fmt::format("tensors overlap or leave a hole at byte {}", std::min(begin, at)));
      at = end;
    }
    need(at == data_bytes_, "data_offsets",
         fmt::format("the tensors end at byte {} of {} bytes of data", at, data_bytes_));
  }

  uint64_t data_bytes_;
  const std::string& where_;
};

uint64_t header_length(std::string_view bytes, uint64_t file_bytes, const std::string& where) {
  uint64_t n = 0;
  if (bytes.size() < sizeof n || file_bytes < sizeof n)
    throw DataError(fmt::format("{}: {} bytes: too short for a safetensors file", where, file_bytes));
  std::memcpy(&n, bytes.data(), sizeof n);
  if (n > kMaxHeader || n > file_bytes - sizeof n)
    throw DataError(
        fmt::format("{}: header length {}; legal: up to {} and no more than the file's {}"
                    " (is this a safetensors file?)",
                    where, n, kMaxHeader, file_bytes));
  return n;
}

}  // namespace

SafetensorsHeader parse_safetensors(std::string_view bytes, uint64_t file_bytes, const std::string& where) {
  const uint64_t n = header_length(bytes, file_bytes, where);
  if (bytes.size() - sizeof n < n) throw DataError(fmt::format("{}: truncated inside its header", where));
  SafetensorsHeader header;
  header.data_start = sizeof n + n;
  HeaderParser(file_bytes - header.data_start, where).parse(bytes.substr(sizeof n, n), header);
  return header;
}

SafetensorsHeader read_safetensors_header(const std::filesystem::path& path) {
  const uint64_t file_bytes = facts_of(path).bytes;
  const ReadableFile file(path);
  std::string bytes(sizeof(uint64_t), '\0');
  bytes.resize(file.read(0, std::as_writable_bytes(std::span(bytes))));
  const uint64_t n = header_length(bytes, file_bytes, path.string());
  with_memory_for(
      n, [&] { return path.string() + ": header"; }, [&] { bytes.resize(sizeof n + n); });
  bytes.resize(sizeof n + file.read(sizeof n, std::as_writable_bytes(std::span(bytes).subspan(sizeof n))));
  return parse_safetensors(bytes, file_bytes, path.string());
}

std::string lay_out_safetensors(SafetensorsHeader& header) {
  std::vector<std::pair<const std::string, SafetensorsEntry>*> order;
  for (auto& item : header.tensors) order.push_back(&item);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return bytes_of(a->second.dtype).value() > bytes_of(b->second.dtype).value();
  });
  nlohmann::ordered_json root = nlohmann::ordered_json::object();
  if (!header.metadata.empty()) root["__metadata__"] = header.metadata;
  auto& entries = root.get_ref<nlohmann::ordered_json::object_t&>();
  uint64_t at = 0;
  for (auto* item : order) {
    SafetensorsEntry& e = item->second;
    uint64_t bytes = bytes_of(e.dtype).value();
    for (const int64_t d : e.shape) bytes *= static_cast<uint64_t>(d);
    e.begin = at;
    e.end = at += bytes;
    entries.push_back({item->first, {{"dtype", e.dtype}, {"shape", e.shape}, {"data_offsets", {e.begin, e.end}}}});
  }
  std::string text = root.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t n = text.size();
  header.data_start = sizeof n + n;
  std::string bytes(sizeof n, '\0');
  std::memcpy(bytes.data(), &n, sizeof n);
  return bytes + text;
}

}  // namespace fp
