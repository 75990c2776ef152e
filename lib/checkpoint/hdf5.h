// The little of HDF5 that checkpoints need, with owned handles and errors as DataError ("file: cannot do it: HDF5's
// innermost reason"), or as InfrastructureError where a system call failed that may succeed later. HDF5 never prints by
// itself. Datasets are fp32, little-endian, contiguous, uncompressed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/shape.h"

namespace fp::h5 {

// An HDF5 identifier that is closed when it goes.
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
  // Closes now; what HDF5 answered (negative: failed).
  int release();

 private:
  Id id_ = -1;
  Close close_ = nullptr;
};

// A box inside a tensor.
struct Box {
  Shape start, count;
};

// Host memory that a box is read into or written from: a whole row-major array of shape `dims`, and where in it the box
// starts.
struct Window {
  Shape dims, start;
};

// Part of a virtual dataset: the box that `dataset` of `file` (relative to the virtual dataset's own folder) fills.
struct Mapping {
  Box box;
  std::string file, dataset;
};

class Dataset {
 public:
  const Shape& shape() const { return shape_; }
  void write(const Box& box, const float* data, const Window& window) const;
  void read(const Box& box, float* data, const Window& window) const;
  // Where its bytes lie in the file, one after the other. DataError when they do not.
  int64_t file_offset() const;
  void set_attribute(const std::string& name, std::span<const uint64_t> values);
  // Of a virtual dataset.
  std::vector<Mapping> mappings() const;

 private:
  friend class File;
  Dataset(std::string where, Handle id, const Shape& shape)
      : where_(std::move(where)), id_(std::move(id)), shape_(shape) {}
  std::string where_;
  Handle id_;
  Shape shape_;
};

class File {
 public:
  static File create(const std::filesystem::path& path);  // existing: an error
  static File open(const std::filesystem::path& path);    // read only
  const std::filesystem::path& path() const { return path_; }
  // Flushes and closes, reporting what goes wrong then; the destructor closes in silence.
  void close();

  // Groups on the way to `name` ("a/b/c") are made. Its numbers may also go to descriptor(), at file_offset().
  Dataset create_dataset(const std::string& name, const Shape& shape);
  // Elements that no mapping covers, or whose file is missing, read as NaN.
  void create_virtual(const std::string& name, const Shape& shape, std::span<const Mapping> mappings);
  Dataset dataset(const std::string& name) const;
  bool has(const std::string& name) const;

  // Attributes of a group or dataset ("/": the file): lists of unsigned numbers.
  void set_attribute(const std::string& object, const std::string& name, std::span<const uint64_t> values);
  std::vector<uint64_t> attribute(const std::string& object, const std::string& name) const;
  std::optional<std::vector<uint64_t>> find_attribute(const std::string& object, const std::string& name) const;

  // Of the open file; closed with it.
  int descriptor() const;

  // Names inside a group, sorted.
  std::vector<std::string> children(const std::string& group) const;

 private:
  File(std::filesystem::path path, Handle id) : path_(std::move(path)), id_(std::move(id)) {}
  std::string where(const std::string& object) const { return path_.string() + ": " + object; }
  std::filesystem::path path_;
  Handle id_;
  Handle with_groups_, contiguous_;  // how objects are made, in a file that is written
};

}  // namespace fp::h5
