// Named tensors in files, read piecewise: nothing is mapped or cached.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "interop/element.h"
#include "io/readable_file.h"

namespace fp {

struct StoredTensor {
  std::string dtype;           // name of the type in safetensors
  std::vector<int64_t> shape;  // any rank
  size_t file = 0;             // index of its file in the TensorFiles
  uint64_t offset = 0;         // offset of its first byte in the file
};

class TensorFiles {
 public:
  // Opens one .safetensors file, or a folder: its model.safetensors.index.json with all files it names, else its
  // model.safetensors, else its only .safetensors file. Throws DataError for anything missing, malformed or
  // contradictory. Like all that reads here, retries transient errors and then throws InfrastructureError.
  static TensorFiles open_safetensors(const std::filesystem::path&);

  // Opens a file and returns its index. Throws DataError when it cannot be opened.
  size_t add_file(const std::filesystem::path&);
  // Adds a tensor. Throws DataError when the name exists already.
  void add(const std::string& name, StoredTensor);

  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  // Returns null when there is no tensor of this name.
  const StoredTensor* find(const std::string& name) const;
  const std::filesystem::path& path(size_t file) const { return files_[file]->path(); }

  size_t files() const { return files_.size(); }
  // Reads out.size() bytes of a file from `offset` on. Throws DataError when the file ends before, or cannot be read.
  void read(size_t file, uint64_t offset, std::span<std::byte> out) const;

 private:
  void add_safetensors(const std::filesystem::path&);

  std::vector<std::unique_ptr<ReadableFile>> files_;
  std::map<std::string, StoredTensor> tensors_;
};

}  // namespace fp
