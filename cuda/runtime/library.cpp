#include "cuda/runtime/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "base/error.h"
#include "cuda/rules/library_search.h"
#include "cuda/runtime/check.h"

namespace fp::cuda {
namespace {

// Libraries are never closed: they hold GPU state that must outlive every object.
void* open_library(const std::string& soname, const std::string& wheel) {
  std::string why;
  for (const std::string& candidate : library_candidates(soname, search_places())) {
    if (void* library = dlopen(candidate.c_str(), RTLD_NOW | RTLD_GLOBAL)) return library;
    // The first error is "no such file" for the bare name; that of an existing file which fails to load says more.
    why = dlerror();
  }
  throw ConfigError(library_missing(soname, wheel, why));
}

template <class Function>
void find(Function& function, void* library, const char* name, const char* soname) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr)
    throw ConfigError(fmt::format("{} has no function {}: it does not belong to CUDA 13; {}", soname, name, dlerror()));
}

CublasLt load_cublas_lt() {
  constexpr const char* soname = "libcublasLt.so.13";
  void* library = open_library(soname, "nvidia-cublas");
  CublasLt table;
#define FP_FIND(name) find(table.name, library, #name, soname);
  FP_CUBLASLT_FUNCTIONS(FP_FIND)
  return table;
}

Cudnn load_cudnn() {
  constexpr const char* soname = "libcudnn.so.9";
  void* library = open_library(soname, "nvidia-cudnn-cu13");
  Cudnn table;
  FP_CUDNN_FUNCTIONS(FP_FIND)
  return table;
}

Nccl load_nccl() {
  constexpr const char* soname = "libnccl.so.2";
  void* library = open_library(soname, "nvidia-nccl-cu13");
  Nccl table;
  FP_NCCL_FUNCTIONS(FP_FIND)
#undef FP_FIND
  return table;
}

}  // namespace

const CublasLt& cublas_lt() {
  static const CublasLt table = load_cublas_lt();
  return table;
}

const Cudnn& cudnn() {
  static const Cudnn table = load_cudnn();
  return table;
}

const Nccl& nccl() {
  static const Nccl table = load_nccl();
  return table;
}

void check_cublas_lt(cublasStatus_t status, const char* call, const char* file, int line) {
  if (status != CUBLAS_STATUS_SUCCESS) [[unlikely]]
    fail_library(cublas_lt().cublasLtGetStatusString(status), call, file, line);
}

void check_cudnn(cudnnStatus_t status, const char* call, const char* file, int line) {
  if (status != CUDNN_STATUS_SUCCESS) [[unlikely]]
    fail_library(cudnn().cudnnGetErrorString(status), call, file, line);
}

}  // namespace fp::cuda
