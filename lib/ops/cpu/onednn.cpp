#include "ops/cpu/onednn.h"

#include <map>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <tuple>

#include "base/parallel.h"

namespace fp::cpu {

// OneDnn::Impl has members of these two types, so they are not in the anonymous namespace.
using OneDnnKey = std::tuple<bool, bool, bool, bool, bool, bool, int64_t, int64_t, int64_t, int>;

struct OneDnnProduct {
  dnnl::matmul::primitive_desc description;
  dnnl::matmul primitive;
};

namespace {

using Type = dnnl::memory::data_type;

Type type_of(bool is_bf16) { return is_bf16 ? Type::bf16 : Type::f32; }

dnnl::memory::desc matrix(int64_t rows, int64_t cols, Type type, bool transposed) {
  return {{rows, cols}, type, transposed ? dnnl::memory::dims{1, rows} : dnnl::memory::dims{cols, 1}};
}

// Primitives are created one at a time in the process: oneDNN caches them behind locks that race detectors do not see.
OneDnnProduct make_product(const dnnl::engine& engine, const GemmArgs& g) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const Type type = type_of(g.bf16);
  const auto a = matrix(g.m, g.k, type, g.a_transposed), b = matrix(g.k, g.n, type, !g.b_transposed);
  const auto c = matrix(g.m, g.n, type_of(g.c_bf16), false);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (g.add) {
    dnnl::post_ops post;
    post.append_sum(1.0f);
    attributes.set_post_ops(post);
  }
  const auto description =
      g.bias == nullptr ? dnnl::matmul::desc(a, b, c) : dnnl::matmul::desc(a, b, matrix(1, g.n, type, false), c);
  dnnl::matmul::primitive_desc primitive_description(description, attributes, engine);
  return {primitive_description, dnnl::matmul(primitive_description)};
}

bool has_amx() {
#ifdef FP_X86_KERNELS
  return dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core_amx;
#else
  return false;
#endif
}

}  // namespace

struct OneDnn::Impl {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  std::mutex mutex;
  std::map<OneDnnKey, OneDnnProduct> products;

  // A primitive is created for the number of threads that run it.
  const OneDnnProduct& product(const GemmArgs& g) {
    const OneDnnKey key{g.bf16, g.a_transposed, g.b_transposed, g.c_bf16, g.add, g.bias != nullptr, g.m, g.n,
                        g.k,    max_threads()};
    const std::lock_guard lock(mutex);
    const auto found = products.find(key);
    return found != products.end() ? found->second : products.emplace(key, make_product(engine, g)).first->second;
  }
};

OneDnn::OneDnn(Isa isa) : impl_(std::make_unique<Impl>()), amx_(isa == Isa::amx && has_amx()) {
  if (amx_) use_openmp_threads();  // oneDNN's products run on them
}
OneDnn::~OneDnn() = default;

// Tiles hold pairs of bf16: oneDNN 2.6.3 configures them wrongly for an odd K, and the multiplication then faults.
bool OneDnn::prefers(const GemmArgs& g) const { return amx_ && g.bf16 && g.k % 2 == 0; }

void OneDnn::gemm(const GemmArgs& g, ScratchPool& pool) {
  const OneDnnProduct& p = impl_->product(g);
  const auto memory = [&](const dnnl::memory::desc& d, const void* data) {
    return dnnl::memory(d, impl_->engine, const_cast<void*>(data));
  };
  const auto scratch = pool.acquire(p.description.scratchpad_desc().get_size());
  std::unordered_map<int, dnnl::memory> arguments{
      {DNNL_ARG_SRC, memory(p.description.src_desc(), g.a)},
      {DNNL_ARG_WEIGHTS, memory(p.description.weights_desc(), g.b)},
      {DNNL_ARG_DST, memory(p.description.dst_desc(), g.c)},
      {DNNL_ARG_SCRATCHPAD, memory(p.description.scratchpad_desc(), scratch.data())}};
  if (g.bias != nullptr) arguments.emplace(DNNL_ARG_BIAS, memory(p.description.bias_desc(), g.bias));
  dnnl::stream stream(impl_->engine);
  p.primitive.execute(stream, arguments);
  stream.wait();
}

}  // namespace fp::cpu
