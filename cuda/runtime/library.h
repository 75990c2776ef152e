// cuBLASLt, cuDNN and NCCL, loaded with dlopen when first needed, so that one binary also runs on machines without
// them. Each is a table of the functions that fptrain calls, under their own names: cudnn().cudnnCreate(&handle).
//
// Search paths: cuda/rules/library_search.h. A library that is missing, or too old to have a function, is a ConfigError
// that says what to do.
#pragma once

#include <cublasLt.h>
#include <cudnn_graph.h>
#include <nccl.h>

#define FP_CUBLASLT_FUNCTIONS(X)          \
  X(cublasLtCreate)                       \
  X(cublasLtDestroy)                      \
  X(cublasLtGetStatusString)              \
  X(cublasLtMatmul)                       \
  X(cublasLtMatmulAlgoGetHeuristic)       \
  X(cublasLtMatmulDescCreate)             \
  X(cublasLtMatmulDescDestroy)            \
  X(cublasLtMatmulDescSetAttribute)       \
  X(cublasLtMatmulPreferenceCreate)       \
  X(cublasLtMatmulPreferenceDestroy)      \
  X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatrixLayoutCreate)           \
  X(cublasLtMatrixLayoutDestroy)

#define FP_CUDNN_FUNCTIONS(X)      \
  X(cudnnCreate)                   \
  X(cudnnDestroy)                  \
  X(cudnnSetStream)                \
  X(cudnnGetVersion)               \
  X(cudnnGetErrorString)           \
  X(cudnnGetLastErrorString)       \
  X(cudnnBackendCreateDescriptor)  \
  X(cudnnBackendDestroyDescriptor) \
  X(cudnnBackendSetAttribute)      \
  X(cudnnBackendGetAttribute)      \
  X(cudnnBackendFinalize)          \
  X(cudnnBackendExecute)

#define FP_NCCL_FUNCTIONS(X) \
  X(ncclGetErrorString)      \
  X(ncclGetLastError)        \
  X(ncclGetUniqueId)         \
  X(ncclCommInitRankConfig)  \
  X(ncclCommGetAsyncError)   \
  X(ncclCommFinalize)        \
  X(ncclCommDestroy)         \
  X(ncclCommAbort)           \
  X(ncclAllReduce)           \
  X(ncclAllGather)           \
  X(ncclReduceScatter)       \
  X(ncclBroadcast)           \
  X(ncclSend)                \
  X(ncclRecv)                \
  X(ncclGroupStart)          \
  X(ncclGroupEnd)

namespace fp::cuda {

#define FP_MEMBER(name) decltype(&::name) name = nullptr;
struct CublasLt {
  FP_CUBLASLT_FUNCTIONS(FP_MEMBER)
};
struct Cudnn {
  FP_CUDNN_FUNCTIONS(FP_MEMBER)
};
struct Nccl {
  FP_NCCL_FUNCTIONS(FP_MEMBER)
};
#undef FP_MEMBER

// The libraries, loaded by the first call and kept until the process ends.
const CublasLt& cublas_lt();
const Cudnn& cudnn();
const Nccl& nccl();  // its results are checked in cuda/comm, where a failure aborts the communicator

// FP_CUBLASLT(cublasLtCreate(&handle)), FP_CUDNN(cudnnCreate(&handle)): throw DeviceError with the call, as FP_CUDA
// does.
void check_cublas_lt(cublasStatus_t, const char* call, const char* file, int line);
void check_cudnn(cudnnStatus_t, const char* call, const char* file, int line);

}  // namespace fp::cuda

#define FP_CUBLASLT(call) ::fp::cuda::check_cublas_lt(::fp::cuda::cublas_lt().call, #call, __FILE__, __LINE__)
#define FP_CUDNN(call) ::fp::cuda::check_cudnn(::fp::cuda::cudnn().call, #call, __FILE__, __LINE__)
