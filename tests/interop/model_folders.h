// Small models in other programs' file formats, with random bytes as weights.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/philox.h"
#include "config/hf/hf_config.h"
#include "interop/layout.h"
#include "interop/safetensors.h"
#include "io/filesystem.h"
#include "model/architecture.h"
#include "support/tiny_models.h"

namespace fp::test {

// A temporary folder.
struct Folder {
  std::filesystem::path path;
  explicit Folder(const std::string& name = "transfer")
      : path(std::filesystem::temp_directory_path() / ("fptrain-" + name + "-" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path / "hf");
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::filesystem::path operator/(const std::string& name) const { return path / name; }
};

inline ModelSection model_of(const std::string& name) {
  ModelSection m = tiny_model(name);
  m.dropout_embedding = m.dropout_attention = m.dropout_residual = m.dropout_ffn = 0;
  return m;
}

struct FileTensor {
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;

  bool operator==(const FileTensor&) const = default;
};
using Tensors = std::map<std::string, FileTensor>;

inline void write_tensors(const std::filesystem::path& file, const Tensors& tensors) {
  SafetensorsHeader header;
  for (const auto& [name, t] : tensors) header.tensors[name] = {t.dtype, t.shape, 0, 0};
  std::string bytes = lay_out_safetensors(header);
  const size_t start = bytes.size();
  for (const auto& [name, t] : tensors) {
    const SafetensorsEntry& e = header.tensors[name];
    if (bytes.size() < start + e.end) bytes.resize(start + e.end);
    bytes.replace(start + e.begin, t.bytes.size(), t.bytes);
  }
  write_file_atomically(file, bytes);
}

// Returns the tensors of all .safetensors files of a folder.
inline Tensors tensors_in(const std::filesystem::path& folder) {
  Tensors found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    const std::string file = read_file(entry.path());
    const SafetensorsHeader h = read_safetensors_header(entry.path());
    for (const auto& [name, e] : h.tensors)
      found[name] = {e.dtype, e.shape, file.substr(h.data_start + e.begin, e.end - e.begin)};
  }
  return found;
}

// Returns a model's unsplit tensors, named and ordered by a mapping, with random bytes as bf16.
inline Tensors random_tensors(const ModelSection& m, const MappingSpec& mapping) {
  ParamTable table;
  declare_parameters(m, table);
  const Layout layout(mapping, m, table);
  Tensors tensors;
  uint64_t state = 1;
  for (const ParamId id : layout.in_order_of_rules()) {
    FileTensor& t = tensors[layout[id].name()] = {"BF16", layout[id].shape, ""};
    for (int64_t i = 0; i < 2 * table[id].shape.elements(); ++i) t.bytes += static_cast<char>(Philox::mix(state++));
  }
  return tensors;
}

// Returns indices [begin, begin + count) of a dimension.
inline FileTensor cut(const FileTensor& t, int dim, int64_t begin, int64_t count) {
  const int64_t rows = t.shape[0], columns = t.shape.size() == 2 ? t.shape[1] : 1;
  const size_t width = t.dtype == "F32" ? 4 : 2;
  FileTensor out = {t.dtype, t.shape, ""};
  out.shape[static_cast<size_t>(dim)] = count;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      if (const int64_t at = dim == 0 ? i : j; at >= begin && at < begin + count)
        out.bytes += t.bytes.substr(static_cast<size_t>(i * columns + j) * width, width);
  return out;
}

// Returns the rows of a followed by those of b.
inline FileTensor stacked(const FileTensor& a, const FileTensor& b) {
  FileTensor out = a;
  out.shape[0] += b.shape[0];
  out.bytes += b.bytes;
  return out;
}

}  // namespace fp::test
