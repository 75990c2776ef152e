// The CUDA factories of a build without CUDA: they report that there is no GPU support.
#include "base/error.h"
#include "comm/backends.h"
#include "ops/backends.h"

namespace fp {

std::string cuda_unavailable(int) { return "this fptrain was built without CUDA"; }

std::unique_ptr<Ops> make_cuda_ops(int index) {
  throw ConfigError("device cuda: " + cuda_unavailable(index) +
                    "; to build it in, install the CUDA 13 toolkit and configure with: cmake --preset release "
                    "-DFPTRAIN_CUDA=ON. Legal here: cpu, ref, auto");
}

std::unique_ptr<World> make_nccl_world(World&, Ops&) { throw ConfigError("NCCL: " + cuda_unavailable(0)); }

}  // namespace fp
