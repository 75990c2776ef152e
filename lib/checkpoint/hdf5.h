// A C++ wrapper for the few HDF5 functions that checkpoints need, with owned handles. Errors are thrown as DataError
// ("file: cannot do it: HDF5's innermost reason"), or as InfrastructureError where a system call failed that may
// succeed later. HDF5 itself never prints. Datasets are fp32 or bf16, little-endian, contiguous or virtual,
// uncompressed; they are read and written as fp32. Reading a file refuses everything that leads out of it (all links
// but hard ones, and external storage) with DataError. A file made for the purpose may still crash HDF5: open only
// files from trusted sources.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/box.h"
#include "base/dtype.h"

namespace fp::h5 {

// Owns an HDF5 identifier and closes it in its destructor.
class Handle {
 public:
  using Id = int64_t;
  using Close = int (*)(Id);

  Handle() = default;
  Handle(Id id, Close close) : id_(id), close_(close) {}
  Handle(Handle&& o) noexcept { *this = std::move(o); }
  Handle& operator=(Handle&& o) noexcept {
    std::swap(id_, o.id_);
    std::swap(close_, o.close_);
    return *this;
  }
  ~Handle() { release(); }

  Id get() const { return id_; }
  // Closes now. Returns HDF5's result (negative: failed).
  int release();

 private:
  Id id_ = -1;
  Close close_ = nullptr;
};

// Host memory that a box is read into or written from: a whole row-major array of shape `dims`, in which the box begins
// at index `start`.
struct Window {
  Shape dims, start;
};

// Part of a virtual dataset: `dataset` of `file` (relative to the virtual dataset's own folder) provides `box`.
struct Mapping {
  Box box;
  std::string file, dataset;
};

class Dataset {
 public:
  const Shape& shape() const { return shape_; }
  DType dtype() const;  // throws DataError when it is neither fp32 nor bf16
  void write(const Box& box, const float* data, const Window& window) const;
  void read(const Box& box, float* data, const Window& window) const;
  // Returns the offset in the file, in bytes, at which the contiguous data begins. Throws DataError when the dataset is
  // not contiguous.
  int64_t file_offset() const;
  void set_attribute(const std::string& name, std::span<const uint64_t> values);
  bool is_virtual() const { return virtual_; }
  // Valid for virtual datasets only.
  std::vector<Mapping> mappings() const;

 private:
  friend class File;
  Dataset(std::string where, Handle id, const Shape& shape, bool is_virtual)
      : where_(std::move(where)), id_(std::move(id)), shape_(shape), virtual_(is_virtual) {}
  std::string where_;
  Handle id_;
  Shape shape_;
  bool virtual_;
};

class File {
 public:
  // Creates a new file. Throws when `path` exists, also as a symbolic link.
  static File create(const std::filesystem::path& path);
  // The same, but errors and path() name the file `shown`, for when users do not know it as `path`.
  static File create(const std::filesystem::path& path, const std::filesystem::path& shown);
  static File open(const std::filesystem::path& path);  // read only
  const std::filesystem::path& path() const { return path_; }
  // Flushes and closes, and throws when that fails; the destructor ignores such errors.
  void close();

  // Creates a dataset and the groups above it in `name` ("a/b/c"). Its values may also be written to descriptor(), at
  // file_offset().
  Dataset create_dataset(const std::string& name, const Shape& shape, DType = DType::f32);
  // Creates a virtual dataset. Elements that no mapping covers, or whose file is missing, read as NaN.
  void create_virtual(const std::string& name, const Shape& shape, std::span<const Mapping> mappings,
                      DType = DType::f32);
  Dataset dataset(const std::string& name) const;
  bool has(const std::string& name) const;

  // Write and read attributes of a group or dataset ("/": the file), which are lists of unsigned integers.
  void set_attribute(const std::string& object, const std::string& name, std::span<const uint64_t> values);
  std::vector<uint64_t> attribute(const std::string& object, const std::string& name) const;
  std::optional<std::vector<uint64_t>> find_attribute(const std::string& object, const std::string& name) const;

  // Returns the file descriptor of the open file, which owns it.
  int descriptor() const;

 private:
  File(std::filesystem::path path, Handle id) : path_(std::move(path)), id_(std::move(id)) {}
  std::string where(const std::string& object) const { return path_.string() + ": " + object; }
  void require_hard_links(const std::string& object) const;
  Handle object(const std::string& name) const;
  std::filesystem::path path_;
  Handle id_;
  Handle with_groups_, contiguous_;  // creation properties of links and datasets, in a file that is written
};

}  // namespace fp::h5
