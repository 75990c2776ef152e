#include "cuda/runtime/cudnn_attention.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <tuple>

#include "cuda/runtime/cudnn_attention_graphs.h"

namespace fp::cuda {
namespace {

size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

AttentionShape shape_of(const Tensor& q, const Tensor& k) {
  return {q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2], q.shape[3]};
}

// The key under which a graph is cached.
auto key_of(const AttentionShape& s, const AttentionSpec& spec, bool has_documents) {
  return std::tuple{s.batch,    s.queries,  s.keys,      s.heads,       s.kv_heads,
                    s.head_dim, spec.scale, spec.window, has_documents, sees_all_keys(s, spec)};
}

// Returns the address of element `first` of a tensor; null for an empty tensor.
void* from(const Tensor& t, int64_t first) {
  if (t.data == nullptr) return nullptr;
  return static_cast<std::byte*>(t.data) + static_cast<size_t>(first) * size_of(t.dtype);
}

}  // namespace

struct CudnnAttention::State {
  struct Forward {
    std::optional<ForwardGraph> graph;
    std::string refusal;  // not empty: there is no graph
  };
  struct Backward {
    std::optional<BackwardGraph> graph;
    std::string refusal;
    AttentionSlice slice;  // what one run of the graph processes
    size_t row_sums_bytes = 0;
  };
  using Key = decltype(key_of({}, {}, false));

  State(Device& d, size_t limit) : device(d), score_gradient_limit(limit) {
    try {
      FP_CUDNN(cudnnCreate(&handle));
      FP_CUDNN(cudnnSetStream(handle, device.compute()));
    } catch (const UserError& missing) {  // not installed, or cannot be initialised
      unavailable = missing.what();
    }
  }
  ~State() {
    if (handle != nullptr) cudnn().cudnnDestroy(handle);
  }

  const Forward& forward(const AttentionShape& shape, const AttentionSpec& spec, bool has_documents) {
    const auto key = key_of(shape, spec, has_documents);
    if (const auto entry = forwards.find(key); entry != forwards.end()) return entry->second;
    Forward made;
    made.refusal = refusal_of(has_documents, [&](const cudnn_api::Target& target) {
      made.graph.emplace(forward_graph(shape, spec, has_documents, target));
    });
    return forwards.emplace(key, std::move(made)).first->second;
  }

  const Backward& backward(const AttentionShape& shape, const AttentionSpec& spec, bool has_documents) {
    const auto key = key_of(shape, spec, has_documents);
    if (const auto entry = backwards.find(key); entry != backwards.end()) return entry->second;
    Backward made;
    made.slice = slice_below(score_gradient_limit, shape);
    const AttentionShape some = shape_of(made.slice, shape);
    made.row_sums_bytes = static_cast<size_t>(some.batch * some.heads * some.queries) * sizeof(float);
    made.refusal = refusal_of(has_documents, [&](const cudnn_api::Target& target) {
      made.graph.emplace(backward_graph(shape, made.slice, spec, has_documents, target));
    });
    return backwards.emplace(key, std::move(made)).first->second;
  }

  // Builds a graph. Returns why cuDNN cannot; empty when it has.
  template <class Build>
  std::string refusal_of(bool has_documents, const Build& build) const {
    try {
      build(cudnn_api::Target{handle, nullptr});
      return "";
    } catch (const cudnn_api::Unsupported& refused) {
      return fmt::format("cuDNN refuses the graph{}: {}", has_documents ? " for packed documents" : "", refused.what());
    }
  }

  std::string refuses(AttentionPass pass, const AttentionShape& shape, const AttentionSpec& spec, DType dtype,
                      bool has_documents) {
    if (handle == nullptr) return fmt::format("cuDNN cannot be used: {}", unavailable);
    const auto version = static_cast<int64_t>(cudnn().cudnnGetVersion());
    std::string why = cudnn_refusal(pass, version, device.facts().compute_major, shape, spec, dtype, has_documents);
    if (!why.empty()) return why;
    return pass == AttentionPass::forward ? forward(shape, spec, has_documents).refusal
                                          : backward(shape, spec, has_documents).refusal;
  }

  void require(AttentionPass pass, const Tensor& q, const Tensor& k, const Tensor& doc_start,
               const AttentionSpec& spec) {
    const std::string why = refuses(pass, shape_of(q, k), spec, q.dtype, static_cast<bool>(doc_start));
    FP_CHECK(why.empty(), "cuDNN attention was called although it refuses: {}", why);
  }

  Device& device;
  size_t score_gradient_limit;
  cudnnHandle_t handle = nullptr;
  std::string unavailable;
  std::map<Key, Forward> forwards;
  std::map<Key, Backward> backwards;
};

CudnnAttention::CudnnAttention(Device& device, size_t score_gradient_limit)
    : state_(std::make_unique<State>(device, score_gradient_limit)) {}
CudnnAttention::~CudnnAttention() = default;

std::string CudnnAttention::refuses(AttentionPass pass, const AttentionShape& shape, const AttentionSpec& spec,
                                    DType dtype, bool has_documents) const {
  return state_->refuses(pass, shape, spec, dtype, has_documents);
}

size_t CudnnAttention::workspace_bytes(AttentionPass pass, const AttentionShape& shape, const AttentionSpec& spec,
                                       bool has_documents) const {
  if (!refuses(pass, shape, spec, DType::bf16, has_documents).empty()) return 0;
  if (pass == AttentionPass::forward) return state_->forward(shape, spec, has_documents).graph->plan.workspace_bytes();
  const State::Backward& backward = state_->backward(shape, spec, has_documents);
  return aligned(backward.graph->plan.workspace_bytes()) + backward.row_sums_bytes;
}

void CudnnAttention::forward(const Tensor& o, const Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v,
                             const Tensor& doc_start, const AttentionSpec& spec, std::byte* scratch) {
  state_->require(AttentionPass::forward, q, k, doc_start, spec);
  const ForwardGraph& g = *state_->forward(shape_of(q, k), spec, static_cast<bool>(doc_start)).graph;
  g.plan.run(state_->handle,
             {{g.q.id, q.data},
              {g.k.id, k.data},
              {g.v.id, v.data},
              {g.o.id, o.data},
              {g.lse.id, lse.data},
              {g.doc_start.id, doc_start.data}},
             scratch);
}

void CudnnAttention::backward(const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& d_o, const Tensor& q,
                              const Tensor& k, const Tensor& v, const Tensor& o, const Tensor& lse,
                              const Tensor& doc_start, const AttentionSpec& spec, std::byte* scratch) {
  state_->require(AttentionPass::backward, q, k, doc_start, spec);
  const State::Backward& pass = state_->backward(shape_of(q, k), spec, static_cast<bool>(doc_start));
  const BackwardGraph& g = *pass.graph;
  const size_t plan_bytes = aligned(g.plan.workspace_bytes());
  const AttentionShape shape = shape_of(q, k);
  for (int64_t b = 0; b < shape.batch; b += pass.slice.sequences)
    for (int64_t h = 0; h < shape.kv_heads; h += pass.slice.kv_heads) {
      const int64_t head = h * (shape.heads / shape.kv_heads);
      const int64_t at_q = (b * shape.queries * shape.heads + head) * shape.head_dim;
      const int64_t at_k = (b * shape.keys * shape.kv_heads + h) * shape.head_dim;
      g.plan.run(state_->handle,
                 {{g.q.id, from(q, at_q)},
                  {g.k.id, from(k, at_k)},
                  {g.v.id, from(v, at_k)},
                  {g.o.id, from(o, at_q)},
                  {g.lse.id, from(lse, (b * shape.heads + head) * shape.queries)},
                  {g.d_o.id, from(d_o, at_q)},
                  {g.dq.id, from(dq, at_q)},
                  {g.dk.id, from(dk, at_k)},
                  {g.dv.id, from(dv, at_k)},
                  {g.doc_start.id, from(doc_start, b * shape.queries)},
                  {g.row_sums.id, scratch + plan_bytes}},
                 scratch);
    }
}

}  // namespace fp::cuda
