// Named tensors inside files, read piece by piece: nothing is mapped or kept.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "interop/element.h"

namespace fp {

struct StoredTensor {
  std::string dtype;           // as safetensors names it
  std::vector<int64_t> shape;  // of any rank
  size_t file = 0;             // index into the set's files
  uint64_t offset = 0;         // of its first byte in the file
};

class TensorFiles {
 public:
  TensorFiles() = default;
  TensorFiles(TensorFiles&& o) noexcept { *this = std::move(o); }
  TensorFiles& operator=(TensorFiles&& o) noexcept;
  ~TensorFiles();

  // One .safetensors file; or a folder's model.safetensors.index.json with all files it names, else its
  // model.safetensors, else its only .safetensors file. DataError for anything missing, malformed or contradictory.
  static TensorFiles open_safetensors(const std::filesystem::path&);

  size_t add_file(const std::filesystem::path&);
  // DataError when the name is there already.
  void add(const std::string& name, StoredTensor);

  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  const StoredTensor* find(const std::string& name) const;
  const std::filesystem::path& path(size_t file) const { return files_[file].path; }

  size_t files() const { return files_.size(); }
  // Bytes of a file from `offset`. DataError when they are not there.
  void read(size_t file, uint64_t offset, std::span<std::byte> out) const;

 private:
  void add_safetensors(const std::filesystem::path&);

  struct File {
    std::filesystem::path path;
    int fd = -1;
  };
  std::vector<File> files_;
  std::map<std::string, StoredTensor> tensors_;
};

}  // namespace fp
