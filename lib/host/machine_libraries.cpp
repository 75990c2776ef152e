// Queries libraries and GPUs through dlopen, so that the same binary runs where they are missing.
#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <initializer_list>

#include "host/machine.h"

namespace fp {
namespace {

// A library that is never unloaded: drivers do not survive that.
class Library {
 public:
  Library(std::initializer_list<const char*> names) {
    for (const char* name : names)
      if ((handle_ = ::dlopen(name, RTLD_LAZY | RTLD_LOCAL)) != nullptr) return;
  }
  explicit operator bool() const { return handle_ != nullptr; }

  template <class Function>
  Function* symbol(const char* name) const {
    return handle_ == nullptr ? nullptr : reinterpret_cast<Function*>(::dlsym(handle_, name));
  }

 private:
  void* handle_ = nullptr;
};

std::string mpi_version() {
  const Library library{"libmpi.so.40", "libmpich.so.12", "libmpi.so.12", "libmpi.so"};
  // One of the few MPI calls that is legal before MPI_Init.
  auto* get = library.symbol<int(char*, int*)>("MPI_Get_library_version");
  if (get == nullptr) return "";
  std::array<char, 8192> text{};  // MPI_MAX_LIBRARY_VERSION_STRING is 256 or 8192
  int length = 0;
  if (get(text.data(), &length) != 0) return "";
  const std::string all(text.data());
  return all.substr(0, all.find_first_of(",\n"));
}

std::string hdf5_version() {
  const Library library{"libhdf5_serial.so.103", "libhdf5.so.103", "libhdf5_serial.so.310", "libhdf5.so.310",
                        "libhdf5.so.200"};
  auto* get = library.symbol<int(unsigned*, unsigned*, unsigned*)>("H5get_libversion");
  // The query initialises the library that checkpoints use. Its exit handler must not close files: it crashes on a file
  // whose last write failed (a full disk).
  if (auto* no_exit_handler = library.symbol<int()>("H5dont_atexit"); no_exit_handler != nullptr) no_exit_handler();
  unsigned major = 0, minor = 0, release = 0;
  if (get == nullptr || get(&major, &minor, &release) < 0) return "";
  return fmt::format("{}.{}.{}", major, minor, release);
}

std::string nccl_version() {
  const Library library{"libnccl.so.2"};
  auto* get = library.symbol<int(int*)>("ncclGetVersion");
  int code = 0;
  if (get == nullptr || get(&code) != 0) return "";
  // 2.9 changed the encoding from 4 digits to 5.
  return code < 10000 ? fmt::format("{}.{}.{}", code / 1000, code % 1000 / 100, code % 100)
                      : fmt::format("{}.{}.{}", code / 10000, code % 10000 / 100, code % 100);
}

// The part of the CUDA driver interface that lists devices. Devices are plain integers there.
struct CudaDriver {
  explicit CudaDriver(const Library& library)
      : init(library.symbol<int(unsigned)>("cuInit")),
        driver_version(library.symbol<int(int*)>("cuDriverGetVersion")),
        device_count(library.symbol<int(int*)>("cuDeviceGetCount")),
        device_name(library.symbol<int(char*, int, int)>("cuDeviceGetName")),
        device_memory(library.symbol<int(size_t*, int)>("cuDeviceTotalMem_v2")),
        device_attribute(library.symbol<int(int*, int, int)>("cuDeviceGetAttribute")),
        error_name(library.symbol<int(int, const char**)>("cuGetErrorName")) {}

  bool complete() const {
    return init && driver_version && device_count && device_name && device_memory && device_attribute && error_name;
  }

  std::string name_of_error(int code) const {
    const char* name = nullptr;
    return error_name(code, &name) == 0 && name != nullptr ? name : fmt::format("CUDA error {}", code);
  }

  int (*init)(unsigned);
  int (*driver_version)(int*);
  int (*device_count)(int*);
  int (*device_name)(char*, int, int);
  int (*device_memory)(size_t*, int);
  int (*device_attribute)(int*, int, int);
  int (*error_name)(int, const char**);
};

GpuFacts gpu_at(const CudaDriver& cuda, int device) {
  constexpr int kComputeMajor = 75, kComputeMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*
  GpuFacts gpu;
  std::array<char, 256> name{};
  size_t bytes = 0;
  if (cuda.device_name(name.data(), static_cast<int>(name.size()) - 1, device) == 0) gpu.name = name.data();
  if (cuda.device_memory(&bytes, device) == 0) gpu.memory_bytes = static_cast<int64_t>(bytes);
  cuda.device_attribute(&gpu.compute_major, kComputeMajor, device);
  cuda.device_attribute(&gpu.compute_minor, kComputeMinor, device);
  return gpu;
}

void inspect_cuda(LibraryFacts& facts, std::vector<GpuFacts>& gpus) {
  const Library library{"libcuda.so.1", "libcuda.so"};
  if (!library) return;
  const CudaDriver cuda(library);
  int version = 0, count = 0;
  if (!cuda.complete() || cuda.driver_version(&version) != 0) {
    facts.cuda_note = "libcuda is installed but does not respond";
    return;
  }
  facts.cuda_driver = fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  int code = cuda.init(0);
  if (code == 0) code = cuda.device_count(&count);
  if (code != 0) facts.cuda_note = cuda.name_of_error(code);
  for (int device = 0; device < count; ++device) gpus.push_back(gpu_at(cuda, device));
}

}  // namespace

LibraryFacts inspect_libraries(std::vector<GpuFacts>& gpus) {
  LibraryFacts facts;
  facts.mpi = mpi_version();
  facts.nccl = nccl_version();
  facts.hdf5 = hdf5_version();
  inspect_cuda(facts, gpus);
  return facts;
}

}  // namespace fp
