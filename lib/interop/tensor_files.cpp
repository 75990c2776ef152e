#include "interop/tensor_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "interop/safetensors.h"
#include "io/filesystem.h"
#include "io/json.h"

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
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ".safetensors") found.push_back(entry.path());
  if (error) throw DataError(fmt::format("{}: cannot be listed: {}", folder.string(), error.message()));
  if (found.size() != 1)
    throw DataError(
        fmt::format("{}: holds {} .safetensors files and no model.safetensors.index.json; legal: an index, "
                    "model.safetensors, or one such file",
                    folder.string(), found.size()));
  return found.front();
}

}  // namespace

TensorFiles& TensorFiles::operator=(TensorFiles&& o) noexcept {
  std::swap(files_, o.files_);
  std::swap(tensors_, o.tensors_);
  return *this;
}

TensorFiles::~TensorFiles() {
  for (const File& f : files_) ::close(f.fd);
}

size_t TensorFiles::add_file(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    throw DataError(fmt::format("{}: cannot be opened: {}", path.string(), std::generic_category().message(errno)));
  files_.push_back({path, fd});
  return files_.size() - 1;
}

void TensorFiles::add(const std::string& name, StoredTensor t) {
  const auto [it, first] = tensors_.emplace(name, std::move(t));
  if (!first)
    throw DataError(fmt::format("{}: {} is in more than one file", files_[it->second.file].path.string(), name));
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
  std::error_code error;
  const fs::path index = path / "model.safetensors.index.json";
  if (!fs::is_directory(path, error)) {
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
  const File& f = files_[file];
  while (!out.empty()) {
    const ssize_t n = ::pread(f.fd, out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      throw DataError(fmt::format("{}: cannot read {} bytes at {}: {}", f.path.string(), out.size(), offset,
                                  n == 0 ? "the file ends before" : std::generic_category().message(errno)));
    out = out.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
}

}  // namespace fp
