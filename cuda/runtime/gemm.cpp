// Gemm by cuBLASLt. A plan (descriptors and the algorithm that its heuristics rank first) is created once for each kind
// of call and cached; a run sets the addresses of the epilogue and launches it.
//
// Results are the same bits in every run: parts of a split sum are added in f32 in a fixed order, never in place.
#include "cuda/runtime/gemm.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <unordered_map>

#include "base/error.h"
#include "cuda/rules/gemm_rules.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/library.h"

namespace fp::cuda {
namespace {

constexpr size_t kWorkspaceBytes = size_t{32} << 20;  // recommended by cuBLAS for Hopper

struct Destroy {
  void operator()(cublasLtMatmulDesc_t d) const { cublas_lt().cublasLtMatmulDescDestroy(d); }
  void operator()(cublasLtMatrixLayout_t d) const { cublas_lt().cublasLtMatrixLayoutDestroy(d); }
  void operator()(cublasLtMatmulPreference_t d) const { cublas_lt().cublasLtMatmulPreferenceDestroy(d); }
};
template <class Opaque>
using Owned = std::unique_ptr<Opaque, Destroy>;
using Description = Owned<cublasLtMatmulDescOpaque_t>;
using Layout = Owned<cublasLtMatrixLayoutOpaque_t>;
using Preference = Owned<cublasLtMatmulPreferenceOpaque_t>;

struct Plan {
  Description description;
  Layout first, second, result;
  cublasLtMatmulAlgo_t algorithm{};
  bool found = false;
};

cudaDataType_t type_of(DType t) {
  FP_CHECK(t == DType::f32 || t == DType::bf16, "no products of {}", name_of(t));
  return t == DType::f32 ? CUDA_R_32F : CUDA_R_16BF;
}

template <class Value>
void set(const Description& d, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  FP_CUBLASLT(cublasLtMatmulDescSetAttribute(d.get(), attribute, &value, sizeof value));
}
template <class Value>
void set(const Preference& p, cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
  FP_CUBLASLT(cublasLtMatmulPreferenceSetAttribute(p.get(), attribute, &value, sizeof value));
}

Layout layout_of(const StoredMatrix& m, DType type) {
  cublasLtMatrixLayout_t layout = nullptr;
  FP_CUBLASLT(cublasLtMatrixLayoutCreate(&layout, type_of(type), static_cast<uint64_t>(m.rows),
                                         static_cast<uint64_t>(m.columns), m.leading));
  return Layout(layout);
}

cublasLtEpilogue_t epilogue_of(const GemmCall& g) {
  switch (g.epilogue) {
    case Epilogue::bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::gelu:
      return g.vector != nullptr ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    case Epilogue::gelu_backward:
      return CUBLASLT_EPILOGUE_DGELU;
    case Epilogue::none:
      break;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

// The heuristics also use the alignment of these addresses.
void set_epilogue_addresses(const Description& d, const GemmCall& g) {
  if (g.epilogue == Epilogue::none) return;
  if (g.vector != nullptr) set(d, CUBLASLT_MATMUL_DESC_BIAS_POINTER, g.vector);
  if (g.aux != nullptr) set(d, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, g.aux);
}

Description describe(const GemmCall& g, const SwappedProduct& p) {
  cublasLtMatmulDesc_t made = nullptr;
  FP_CUBLASLT(cublasLtMatmulDescCreate(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  Description d(made);
  set(d, CUBLASLT_MATMUL_DESC_TRANSA, p.first.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(d, CUBLASLT_MATMUL_DESC_TRANSB, p.second.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(d, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(g));
  if (g.epilogue == Epilogue::gelu || g.epilogue == Epilogue::gelu_backward)
    set(d, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.result.leading);
  set_epilogue_addresses(d, g);
  return d;
}

Preference preference_of(const GemmCall& g) {
  cublasLtMatmulPreference_t made = nullptr;
  FP_CUBLASLT(cublasLtMatmulPreferenceCreate(&made));
  Preference p(made);
  set(p, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
  set(p, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  set(p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(g.b));
  set(p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(g.a));
  set(p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(g.c));
  set(p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(g.c));
  return p;
}

Plan make_plan(cublasLtHandle_t handle, const GemmCall& g) {
  Plan plan;
  if (!epilogue_fits(g)) return plan;
  const SwappedProduct p = swapped(g);
  plan.description = describe(g, p);
  plan.first = layout_of(p.first, g.operands);
  plan.second = layout_of(p.second, g.operands);
  plan.result = layout_of(p.result, g.result);
  const Preference preference = preference_of(g);
  cublasLtMatmulHeuristicResult_t ranked[8];
  int count = 0;
  const cublasStatus_t status = cublas_lt().cublasLtMatmulAlgoGetHeuristic(
      handle, plan.description.get(), plan.first.get(), plan.second.get(), plan.result.get(), plan.result.get(),
      preference.get(), 8, ranked, &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return plan;
  check_cublas_lt(status, "cublasLtMatmulAlgoGetHeuristic", __FILE__, __LINE__);
  for (int i = 0; i < count && !plan.found; ++i) {
    plan.found = ranked[i].state == CUBLAS_STATUS_SUCCESS;
    plan.algorithm = ranked[i].algo;
  }
  return plan;
}

// Returns whether the bias can be written to c before the product, when no fused epilogue is available.
bool can_spread(const GemmCall& g) { return g.epilogue == Epilogue::bias && g.result == g.operands && !g.add; }

}  // namespace

struct Gemm::State {
  explicit State(Device& d) : device(d), workspace(d.allocate(kWorkspaceBytes)) {
    FP_CUBLASLT(cublasLtCreate(&handle));
  }
  ~State() {
    plans.clear();
    if (handle != nullptr) cublas_lt().cublasLtDestroy(handle);
  }

  const Plan& plan(const GemmCall& g) {
    const auto [entry, is_new] = plans.try_emplace(key_of(g));
    if (is_new) entry->second = make_plan(handle, g);
    return entry->second;
  }

  // Computes c = product, or c += product.
  void start(const Plan& plan, const GemmCall& g) const {
    set_epilogue_addresses(plan.description, g);
    const float one = 1.0f, kept = g.add ? 1.0f : 0.0f;
    FP_CUBLASLT(cublasLtMatmul(handle, plan.description.get(), &one, g.b, plan.first.get(), g.a, plan.second.get(),
                               &kept, g.c, plan.result.get(), g.c, plan.result.get(), &plan.algorithm, workspace.get(),
                               kWorkspaceBytes, device.compute()));
  }

  // Fills the rows of c with the vector, each copy doubling those filled.
  void spread_bias(const GemmCall& g) const {
    const size_t row = static_cast<size_t>(g.n) * size_of(g.result);
    device.copy(g.c, g.vector, row);
    for (int64_t filled = 1; filled < g.m; filled *= 2)
      device.copy(static_cast<std::byte*>(g.c) + static_cast<size_t>(filled) * row, g.c,
                  static_cast<size_t>(std::min(filled, g.m - filled)) * row);
  }

  Device& device;
  std::shared_ptr<std::byte> workspace;
  cublasLtHandle_t handle = nullptr;
  std::unordered_map<GemmKey, Plan, GemmKeyHash> plans;
};

Gemm::Gemm(Device& device) : state_(std::make_unique<State>(device)) {}
Gemm::~Gemm() = default;
size_t Gemm::own_bytes() { return kWorkspaceBytes; }

bool Gemm::supports(const GemmCall& g) const {
  if (g.epilogue == Epilogue::none) return true;
  return can_spread(g) || state_->plan(g).found;
}

void Gemm::run(const GemmCall& g) {
  FP_CHECK(g.m > 0 && g.n > 0 && g.k > 0, "an empty product: {} x {} x {}", g.m, g.n, g.k);
  FP_CHECK(!g.add || g.result == DType::f32, "products are added to f32 only");
  FP_CHECK(g.result == DType::f32 || g.result == g.operands, "{} from {}", name_of(g.result), name_of(g.operands));
  const Plan* plan = &state_->plan(g);
  if (plan->found) return state_->start(*plan, g);

  // The same sum, also rounded once: the product is added in f32 to rows that hold the bias.
  GemmCall plain = g;
  plain.epilogue = Epilogue::none;
  plain.vector = nullptr;
  plain.add = true;
  plan = &state_->plan(plain);
  FP_CHECK(can_spread(g) && plan->found, "cuBLASLt has no algorithm for {} x {} x {}, {} to {}, epilogue {}", g.m, g.n,
           g.k, name_of(g.operands), name_of(g.result), static_cast<int>(g.epilogue));
  state_->spread_bias(g);
  state_->start(*plan, plain);
}

}  // namespace fp::cuda
