#include "checkpoint/hdf5.h"

#include <hdf5.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>

#include "base/error.h"
#include "io/retry.h"

namespace fp::h5 {

static_assert(std::is_same_v<Handle::Id, hid_t> && std::is_same_v<herr_t, int>);

namespace {

using Extents = std::array<hsize_t, Shape::kMaxRank>;
constexpr hsize_t kAlignment = 4096;         // of datasets in a file: whole pages
constexpr hsize_t kAlignedFrom = 64 * 1024;  // bytes; smaller objects are packed

Extents extents_of(const Shape& s) {
  Extents e{};
  for (int i = 0; i < s.rank(); ++i) e[static_cast<size_t>(i)] = static_cast<hsize_t>(s[i]);
  return e;
}

// HDF5 must neither print its error stack (a setting of each thread) nor write to files when the process exits.
void quiet() {
  // Fails harmlessly when HDF5 is already initialised: reading its version (lib/host/machine_libraries.cpp) makes this
  // call itself.
  static const bool once [[maybe_unused]] = H5dont_atexit() >= 0;
  thread_local const bool this_thread = H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) >= 0;
  FP_CHECK(this_thread, "HDF5 cannot be set up");
}

struct Reason {
  std::string text;
  int error = 0;  // errno of a failed system call
};

// Returns the innermost entry of the error stack; for a failed system call, its errno and text.
Reason reason() {
  std::string text = "unknown HDF5 error";
  const auto take_first = [](unsigned n, const H5E_error2_t* error, void* out) -> herr_t {
    if (n == 0 && error->desc != nullptr) *static_cast<std::string*>(out) = error->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_first, &text);
  constexpr std::string_view number = "errno = ", key = "error message = '";
  const size_t begin = text.find(key), error = text.find(number);
  if (begin == std::string::npos) return {text};
  const size_t end = text.find('\'', begin + key.size());
  return {text.substr(begin + key.size(), end - begin - key.size()),
          error == std::string::npos ? 0 : std::atoi(text.c_str() + error + number.size())};
}

template <class Result>
Result check(Result result, std::string_view what, const std::string& where) {
  if (result >= 0) return result;
  const Reason why = reason();
  const std::string message = fmt::format("{}: cannot {}: {}", where, what, why.text);
  if (is_transient(why.error)) throw InfrastructureError(message);
  throw DataError(message);
}

Handle property_list(hid_t kind) { return Handle(check(H5Pcreate(kind), "create a property list", "HDF5"), H5Pclose); }

Handle file_access(const std::string& where) {
  Handle fapl = property_list(H5P_FILE_ACCESS);
  check(H5Pset_libver_bounds(fapl.get(), H5F_LIBVER_V18, H5F_LIBVER_V110), "set the format version", where);
  check(H5Pset_alignment(fapl.get(), kAlignedFrom, kAlignment), "set the alignment", where);
  // Buffered small writes would happen when a dataset is closed, where a full disk cannot be reported.
  check(H5Pset_sieve_buf_size(fapl.get(), 0), "switch write buffers off", where);
  // Checkpoints never change once visible, and locks fail on some network file systems.
  check(H5Pset_file_locking(fapl.get(), false, true), "switch file locking off", where);
  return fapl;
}

Handle space_of(const Shape& shape, const std::string& where) {
  const Extents dims = extents_of(shape);
  return Handle(check(H5Screate_simple(shape.rank(), dims.data(), nullptr), "create a dataspace", where), H5Sclose);
}

// Returns the type of stored elements. HDF5 has no bf16 of its own: it is the upper half of an fp32 number.
Handle type_of(DType t, const std::string& where) {
  Handle type(check(H5Tcopy(H5T_IEEE_F32LE), "create a type", where), H5Tclose);
  if (t == DType::f32) return type;
  FP_CHECK(t == DType::bf16, "{}: {} cannot be stored", where, name_of(t));
  check(H5Tset_fields(type.get(), 15, 7, 8, 0, 7), "create a type", where);  // sign, exponent, mantissa
  check(H5Tset_size(type.get(), 2), "create a type", where);
  check(H5Tset_ebias(type.get(), 127), "create a type", where);
  return type;
}

void select(const Handle& space, const Shape& start, const Shape& count, const std::string& where) {
  const Extents s = extents_of(start), c = extents_of(count);
  check(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, s.data(), nullptr, c.data(), nullptr), "select a box", where);
}

Handle link_creation(const std::string& where) {
  Handle lcpl = property_list(H5P_LINK_CREATE);
  check(H5Pset_create_intermediate_group(lcpl.get(), 1), "create groups", where);
  return lcpl;
}

void write_attribute(const Handle& owner, const std::string& where, const std::string& name,
                     std::span<const uint64_t> values) {
  const Handle space = space_of({static_cast<int64_t>(values.size())}, where);
  const Handle id(check(H5Acreate2(owner.get(), name.c_str(), H5T_STD_U64LE, space.get(), H5P_DEFAULT, H5P_DEFAULT),
                        "create attribute " + name, where),
                  H5Aclose);
  check(H5Awrite(id.get(), H5T_NATIVE_UINT64, values.data()), "write attribute " + name, where);
}

std::vector<uint64_t> read_attribute(const Handle& owner, const std::string& where, const std::string& name) {
  const Handle id(check(H5Aopen(owner.get(), name.c_str(), H5P_DEFAULT), "open attribute " + name, where), H5Aclose);
  const Handle space(check(H5Aget_space(id.get()), "read attribute " + name, where), H5Sclose);
  const Handle file(check(H5Iget_file_id(owner.get()), "read attribute " + name, where), H5Fclose);
  hsize_t bytes = 0;
  check(H5Fget_filesize(file.get(), &bytes), "read attribute " + name, where);
  const auto count =
      static_cast<uint64_t>(check(H5Sget_simple_extent_npoints(space.get()), "read attribute " + name, where));
  if (count > bytes / sizeof(uint64_t))
    throw DataError(fmt::format("{}: attribute {} is larger than the file", where, name));
  std::vector<uint64_t> values(static_cast<size_t>(count));
  check(H5Aread(id.get(), H5T_NATIVE_UINT64, values.data()), "read attribute " + name, where);
  return values;
}

}  // namespace

int Handle::release() {
  const int result = id_ < 0 ? 0 : close_(id_);
  id_ = -1;
  return result;
}

void Dataset::write(const Box& box, const float* data, const Window& window) const {
  const Handle file = space_of(shape_, where_), memory = space_of(window.dims, where_);
  select(file, box.start, box.count, where_);
  select(memory, window.start, box.count, where_);
  check(H5Dwrite(id_.get(), H5T_NATIVE_FLOAT, memory.get(), file.get(), H5P_DEFAULT, data), "write", where_);
}

void Dataset::read(const Box& box, float* data, const Window& window) const {
  const Handle file = space_of(shape_, where_), memory = space_of(window.dims, where_);
  select(file, box.start, box.count, where_);
  select(memory, window.start, box.count, where_);
  check(H5Dread(id_.get(), H5T_NATIVE_FLOAT, memory.get(), file.get(), H5P_DEFAULT, data), "read", where_);
}

DType Dataset::dtype() const {
  const Handle type(check(H5Dget_type(id_.get()), "read the type", where_), H5Tclose);
  for (const DType t : {DType::f32, DType::bf16})
    if (H5Tequal(type.get(), type_of(t, where_).get()) > 0) return t;
  throw DataError(
      fmt::format("{}: has elements of another type, of {} bytes; legal: fp32, bf16", where_, H5Tget_size(type.get())));
}

int64_t Dataset::file_offset() const {
  const haddr_t offset = H5Dget_offset(id_.get());  // also undefined for a tensor without elements
  if (offset == HADDR_UNDEF && shape_.elements() > 0)
    throw DataError(fmt::format("{}: is not a contiguous dataset", where_));
  return static_cast<int64_t>(offset);
}

void Dataset::set_attribute(const std::string& name, std::span<const uint64_t> values) {
  write_attribute(id_, where_, name, values);
}

std::vector<Mapping> Dataset::mappings() const {
  const Handle dcpl(check(H5Dget_create_plist(id_.get()), "read the layout", where_), H5Pclose);
  size_t count = 0;
  check(H5Pget_virtual_count(dcpl.get(), &count), "read the mappings", where_);
  std::vector<Mapping> list(count);
  for (size_t i = 0; i < count; ++i) {
    const Handle space(check(H5Pget_virtual_vspace(dcpl.get(), i), "read a mapping", where_), H5Sclose);
    Extents first{}, last{};
    check(H5Sget_select_bounds(space.get(), first.data(), last.data()), "read a mapping", where_);
    for (size_t d = 0; d < static_cast<size_t>(shape_.rank()); ++d) {
      list[i].box.start.push_back(static_cast<int64_t>(first[d]));
      list[i].box.count.push_back(static_cast<int64_t>(last[d] - first[d] + 1));
    }
    const auto text = [&](auto get) {
      std::string name(static_cast<size_t>(check(get(dcpl.get(), i, nullptr, 0), "read a mapping", where_)), '\0');
      check(get(dcpl.get(), i, name.data(), name.size() + 1), "read a mapping", where_);
      return name;
    };
    list[i].file = text(H5Pget_virtual_filename);
    list[i].dataset = text(H5Pget_virtual_dsetname);
  }
  return list;
}

File File::create(const std::filesystem::path& path) { return create(path, path); }

File File::create(const std::filesystem::path& path, const std::filesystem::path& shown) {
  quiet();
  const std::string name = shown.string();
  const Handle fapl = file_access(name);
  Handle id(check(H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, fapl.get()), "create", name), H5Fclose);
  File file(shown, std::move(id));
  file.with_groups_ = link_creation(name);
  file.contiguous_ = property_list(H5P_DATASET_CREATE);
  check(H5Pset_alloc_time(file.contiguous_.get(), H5D_ALLOC_TIME_EARLY), "set the allocation time", name);
  // Every element is written: filling first would write the file twice.
  check(H5Pset_fill_time(file.contiguous_.get(), H5D_FILL_TIME_NEVER), "set the fill time", name);
  return file;
}

File File::open(const std::filesystem::path& path) {
  quiet();
  const Handle fapl = file_access(path.string());
  Handle id(check(H5Fopen(path.c_str(), H5F_ACC_RDONLY, fapl.get()), "open", path.string()), H5Fclose);
  return File(path, std::move(id));
}

void File::close() {
  // A failed close leaves the file open: flush first, so that a full disk shows where it can be reported.
  check(H5Fflush(id_.get(), H5F_SCOPE_LOCAL), "write", path_.string());
  check(id_.release(), "close", path_.string());
}

Dataset File::create_dataset(const std::string& name, const Shape& shape, DType dtype) {
  const Handle space = space_of(shape, where(name)), type = type_of(dtype, where(name));
  Handle id(check(H5Dcreate2(id_.get(), name.c_str(), type.get(), space.get(), with_groups_.get(), contiguous_.get(),
                             H5P_DEFAULT),
                  "create", where(name)),
            H5Dclose);
  return Dataset(where(name), std::move(id), shape, false);
}

void File::create_virtual(const std::string& name, const Shape& shape, std::span<const Mapping> mappings, DType dtype) {
  const Handle dcpl = property_list(H5P_DATASET_CREATE);
  const float missing = std::numeric_limits<float>::quiet_NaN();
  check(H5Pset_fill_value(dcpl.get(), H5T_NATIVE_FLOAT, &missing), "set the fill value", where(name));
  const Handle target = space_of(shape, where(name)), type = type_of(dtype, where(name));
  for (const Mapping& m : mappings) {
    const Handle source = space_of(m.box.count, where(name));
    select(target, m.box.start, m.box.count, where(name));
    check(H5Pset_virtual(dcpl.get(), target.get(), m.file.c_str(), m.dataset.c_str(), source.get()), "map a fragment",
          where(name));
  }
  check(H5Sselect_all(target.get()), "select", where(name));
  const Handle id(
      check(H5Dcreate2(id_.get(), name.c_str(), type.get(), target.get(), with_groups_.get(), dcpl.get(), H5P_DEFAULT),
            "create", where(name)),
      H5Dclose);
}

// A soft or external link may lead to a file that the reader can access but the checkpoint's author cannot.
void File::require_hard_links(const std::string& object) const {
  for (size_t end = 0; end != std::string::npos && object != "/";) {
    end = object.find('/', end + 1);
    H5L_info_t link{};
    const std::string name = object.substr(0, end);
    check(H5Lget_info(id_.get(), name.c_str(), &link, H5P_DEFAULT), "open", where(name));
    if (link.type != H5L_TYPE_HARD)
      throw DataError(fmt::format("{}: is a link that may lead anywhere; legal: hard links", where(name)));
  }
}

Handle File::object(const std::string& name) const {
  require_hard_links(name);
  return Handle(check(H5Oopen(id_.get(), name.c_str(), H5P_DEFAULT), "open", where(name)), H5Oclose);
}

Dataset File::dataset(const std::string& name) const {
  require_hard_links(name);
  Handle id(check(H5Dopen2(id_.get(), name.c_str(), H5P_DEFAULT), "open", where(name)), H5Dclose);
  const Handle space(check(H5Dget_space(id.get()), "read the shape", where(name)), H5Sclose);
  const int rank = check(H5Sget_simple_extent_ndims(space.get()), "read the shape", where(name));
  if (rank > Shape::kMaxRank) throw DataError(fmt::format("{}: has {} dimensions", where(name), rank));
  Extents dims{};
  check(H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr), "read the shape", where(name));
  Shape shape;
  for (int i = 0; i < rank; ++i) shape.push_back(static_cast<int64_t>(dims[static_cast<size_t>(i)]));
  const Handle dcpl(check(H5Dget_create_plist(id.get()), "read the layout", where(name)), H5Pclose);
  const H5D_layout_t layout = H5Pget_layout(dcpl.get());
  const bool own = layout == H5D_VIRTUAL || (layout == H5D_CONTIGUOUS && check(H5Pget_external_count(dcpl.get()),
                                                                               "read the layout", where(name)) == 0);
  if (!own)
    throw DataError(
        fmt::format("{}: is chunked, compact or in other files; legal: contiguous or virtual", where(name)));
  return Dataset(where(name), std::move(id), shape, layout == H5D_VIRTUAL);
}

bool File::has(const std::string& name) const { return H5Lexists(id_.get(), name.c_str(), H5P_DEFAULT) > 0; }

void File::set_attribute(const std::string& object, const std::string& name, std::span<const uint64_t> values) {
  write_attribute(this->object(object), where(object), name, values);
}

std::vector<uint64_t> File::attribute(const std::string& object, const std::string& name) const {
  return read_attribute(this->object(object), where(object), name);
}

std::optional<std::vector<uint64_t>> File::find_attribute(const std::string& object, const std::string& name) const {
  const Handle owner = this->object(object);
  if (check(H5Aexists(owner.get(), name.c_str()), "look for attribute " + name, where(object)) == 0) return {};
  return read_attribute(owner, where(object), name);
}

int File::descriptor() const {
  void* handle = nullptr;
  check(H5Fget_vfd_handle(id_.get(), H5P_DEFAULT, &handle), "find the descriptor", path_.string());
  return *static_cast<const int*>(handle);
}

}  // namespace fp::h5
