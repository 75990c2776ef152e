// The platform of kernel sources: the CUDA language from nvcc, or its emulation on the CPU in tests/cuda_host
// (FP_CUDA_HOST). Only this header and the wrappers in this folder distinguish the two.
//
// FP_SHARED(type, name, count) declares an array in the block's shared memory. FP_DYNAMIC_SHARED(type, name) declares
// the dynamic shared memory requested at launch; it asks for 128-byte alignment, of which 16 bytes are guaranteed.
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
