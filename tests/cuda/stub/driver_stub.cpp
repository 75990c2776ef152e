// A libcuda.so.1 without a GPU, for one purpose: cuDNN compiles the kernels of a plan itself, for a GPU that is only
// described, and then loads them into the driver. This one accepts them and does nothing; every other call fails.
// Signatures do not matter: results are returned in a register, and only handles are written through the first
// argument.
namespace {

constexpr int kSuccess = 0, kStubLibrary = 34;  // CUDA_ERROR_STUB_LIBRARY
char handle[4096];

int give(void** out) {
  *out = handle;
  return kSuccess;
}

}  // namespace

#define FP_GIVES_A_HANDLE(name) \
  extern "C" int name(void** out) { return give(out); }
FP_GIVES_A_HANDLE(cuLibraryLoadData)
FP_GIVES_A_HANDLE(cuLibraryGetKernel)
FP_GIVES_A_HANDLE(cuModuleLoadData)
FP_GIVES_A_HANDLE(cuModuleLoadDataEx)
FP_GIVES_A_HANDLE(cuModuleLoadFatBinary)
FP_GIVES_A_HANDLE(cuModuleGetFunction)

#define FP_SUCCEEDS(name) \
  extern "C" int name() { return kSuccess; }
FP_SUCCEEDS(cuLibraryUnload)
FP_SUCCEEDS(cuModuleUnload)
FP_SUCCEEDS(cuKernelSetAttribute)
FP_SUCCEEDS(cuKernelGetAttribute)
FP_SUCCEEDS(cuFuncSetAttribute)
FP_SUCCEEDS(cuFuncGetAttribute)

#define FP_FAILS(name) \
  extern "C" int name() { return kStubLibrary; }
FP_FAILS(cuCtxGetCurrent)
FP_FAILS(cuCtxGetDevice)
FP_FAILS(cuCtxGetLimit)
FP_FAILS(cuCtxPopCurrent)
FP_FAILS(cuCtxPushCurrent)
FP_FAILS(cuDeviceGet)
FP_FAILS(cuDeviceGetAttribute)
FP_FAILS(cuDeviceGetCount)
FP_FAILS(cuDevicePrimaryCtxRelease)
FP_FAILS(cuDevicePrimaryCtxReset)
FP_FAILS(cuDevicePrimaryCtxRetain)
FP_FAILS(cuDriverGetVersion)
FP_FAILS(cuGetErrorName)
FP_FAILS(cuGetErrorString)
FP_FAILS(cuInit)
FP_FAILS(cuLaunchCooperativeKernel)
FP_FAILS(cuLaunchKernel)
FP_FAILS(cuLaunchKernelEx)
FP_FAILS(cuLibraryLoadFromFile)
FP_FAILS(cuLinkAddData)
FP_FAILS(cuLinkAddData_v2)
FP_FAILS(cuLinkAddFile_v2)
FP_FAILS(cuLinkComplete)
FP_FAILS(cuLinkCreate)
FP_FAILS(cuLinkCreate_v2)
FP_FAILS(cuLinkDestroy)
FP_FAILS(cuMemcpyDtoH_v2)
FP_FAILS(cuModuleGetGlobal_v2)
FP_FAILS(cuOccupancyMaxActiveBlocksPerMultiprocessor)
FP_FAILS(cuOccupancyMaxPotentialClusterSize)
FP_FAILS(cuStreamGetCtx)
FP_FAILS(cuStreamSynchronize)
FP_FAILS(cuTensorMapEncodeTiled)
