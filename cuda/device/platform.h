// What a kernel source needs: the CUDA language from nvcc, or its twin on the CPU when built under tests/cuda_host
// (FP_CUDA_HOST). Nothing else in cuda/ops or cuda/device asks which of the two it is, but the wrappers in this folder.
//
// FP_SHARED(type, name, count): an array in the block's shared memory. FP_DYNAMIC_SHARED(type, name): the bytes asked
// for at launch, 128-byte aligned on a GPU's own terms (16 guaranteed).
#pragma once

#ifdef FP_CUDA_HOST

#include "cuda_host/language.h"

#else

#include <cuda_runtime_api.h>
#include <device_types.h>

namespace fp::cuda {
using Stream = cudaStream_t;
}

#ifdef __CUDACC__
#define FP_SHARED(type, name, count) __shared__ type name[count]
#define FP_DYNAMIC_SHARED(type, name)                          \
  extern __shared__ __align__(128) unsigned char fp_dynamic[]; \
  type* const name = reinterpret_cast<type*>(fp_dynamic)
#endif

#endif
