#include "interop/tensor_files.h"

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/error.h"
#include "interop/safetensors.h"
#include "io/file_status.h"
#include "io/filesystem.h"
#include "io/json.h"
#include "io/retry.h"

namespace fp {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Returns tensor name -> file name of an index.
std::map<std::string, std::string> weight_map(const fs::path& index) {
  const json j = read_json(index);
  if (!j.is_object() || !j.contains("weight_map") || !j["weight_map"].is_object())
    throw DataError(
        fmt::format("{}: weight_map: absent; legal: an object of tensor name to file name", index.string()));
  std::map<std::string, std::string> map;
  for (const auto& [name, file] : j["weight_map"].items()) {
    const std::string text = file.is_string() ? file.get<std::string>() : "";
    if (text.empty() || text.find('/') != std::string::npos)
      throw DataError(fmt::format("{}: weight_map.{}: {}; legal: the name of a file in the same folder", index.string(),
                                  name, file.dump(-1, ' ', true)));
    map[name] = text;
  }
  return map;
}

fs::path only_safetensors_in(const fs::path& folder) {
  const std::vector<fs::path> found = with_retries([&] {
    std::vector<fs::path> files;
    std::error_code error;
    for (auto it = fs::directory_iterator(folder, error); !error && it != fs::directory_iterator(); it.increment(error))
      if (it->path().extension() == ".safetensors") files.push_back(it->path());
    if (error) fail_reading("list the folder", folder, error.value());
    return files;
  });
  if (found.size() != 1)
    throw DataError(
        fmt::format("{}: holds {} .safetensors files and no model.safetensors.index.json; legal: an index, "
                    "model.safetensors, or one such file",
                    folder.string(), found.size()));
  return found.front();
}

}  // namespace

size_t TensorFiles::add_file(const fs::path& path) {
  files_.push_back(std::make_unique<ReadableFile>(path));
  return files_.size() - 1;
}

void TensorFiles::add(const std::string& name, StoredTensor t) {
  const auto [it, first] = tensors_.emplace(name, std::move(t));
  if (!first) throw DataError(fmt::format("{}: {} is in more than one file", path(it->second.file).string(), name));
}

const StoredTensor* TensorFiles::find(const std::string& name) const {
  const auto it = tensors_.find(name);
  return it == tensors_.end() ? nullptr : &it->second;
}

void TensorFiles::add_safetensors(const fs::path& path) {
  const SafetensorsHeader header = read_safetensors_header(path);
  const size_t file = add_file(path);
  for (const auto& [name, e] : header.tensors) add(name, {e.dtype, e.shape, file, header.data_start + e.begin});
}

TensorFiles TensorFiles::open_safetensors(const fs::path& path) {
  TensorFiles set;
  const fs::path index = path / "model.safetensors.index.json";
  const auto status = stat_path(path);
  if (!status || !S_ISDIR(status->st_mode)) {
    set.add_safetensors(path);
  } else if (!path_exists(index)) {
    const fs::path usual = path / "model.safetensors";
    set.add_safetensors(path_exists(usual) ? usual : only_safetensors_in(path));
  } else {
    const std::map<std::string, std::string> map = weight_map(index);
    std::set<std::string> files;
    for (const auto& [name, file] : map) files.insert(file);
    for (const std::string& file : files) set.add_safetensors(path / file);
    for (const auto& [name, file] : map)
      if (const StoredTensor* t = set.find(name); t == nullptr || set.path(t->file).filename() != file)
        throw DataError(fmt::format("{}: lists {} in {}, which does not contain it", index.string(), name, file));
  }
  return set;
}

void TensorFiles::read(size_t file, uint64_t offset, std::span<std::byte> out) const {
  files_[file]->read_exactly(offset, out.data(), out.size());
}

}  // namespace fp
