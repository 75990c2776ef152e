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

// What tells one graph from another.
auto key_of(const AttentionShape& s, const AttentionSpec& spec, bool has_documents) {
  return std::tuple{s.batch,    s.queries,  s.keys,      s.heads,      s.kv_heads,
                    s.head_dim, spec.scale, spec.window, has_documents};
}

// The address of sequences [first, ...) of a tensor whose first dimension is the batch; null of an empty one.
void* from(const Tensor& t, int64_t first) {
  if (t.data == nullptr) return nullptr;
  return static_cast<std::byte*>(t.data) + static_cast<size_t>(first) * (t.bytes() / static_cast<size_t>(t.shape[0]));
}

}  // namespace

struct CudnnAttention::State {
  struct Graphs {
    std::optional<ForwardGraph> forward;
    std::optional<BackwardGraph> backward;
    int64_t sequences = 0;  // of one run of the backward graph
    std::string refusal;    // then there are no graphs
    size_t row_sums_bytes = 0;
  };

  explicit State(Device& d) : device(d) {
    try {
      FP_CUDNN(cudnnCreate(&handle));
      FP_CUDNN(cudnnSetStream(handle, device.compute()));
    } catch (const UserError& missing) {  // not installed, or not able to start
      unavailable = missing.what();
    }
  }
  ~State() {
    if (handle != nullptr) cudnn().cudnnDestroy(handle);
  }

  const Graphs& graphs(const AttentionShape& shape, const AttentionSpec& spec, bool has_documents) {
    const auto key = key_of(shape, spec, has_documents);
    if (const auto entry = known.find(key); entry != known.end()) return entry->second;
    Graphs made;
    build(made, shape, spec, has_documents);
    return known.emplace(key, std::move(made)).first->second;
  }

  void build(Graphs& graphs, const AttentionShape& shape, const AttentionSpec& spec, bool has_documents) const {
    const cudnn_api::Target target{handle, nullptr};
    AttentionShape some = shape;
    some.batch = graphs.sequences = sequences_at_once(shape);
    graphs.row_sums_bytes = static_cast<size_t>(some.batch * some.heads * some.queries) * sizeof(float);
    try {
      graphs.forward.emplace(forward_graph(shape, spec, has_documents, target));
      graphs.backward.emplace(backward_graph(some, spec, has_documents, target));
    } catch (const cudnn_api::Unsupported& refused) {
      graphs.refusal =
          fmt::format("cuDNN refuses the graph{}: {}", has_documents ? " for packed documents" : "", refused.what());
    }
  }

  std::string refuses(const AttentionShape& shape, const AttentionSpec& spec, DType dtype, bool has_documents) {
    if (handle == nullptr) return fmt::format("cuDNN cannot be used: {}", unavailable);
    const auto version = static_cast<int64_t>(cudnn().cudnnGetVersion());
    std::string why = cudnn_refusal(version, device.facts().compute_major, shape, spec, dtype, has_documents);
    return why.empty() ? graphs(shape, spec, has_documents).refusal : why;
  }

  const Graphs& accepted(const Tensor& q, const Tensor& k, const Tensor& doc_start, const AttentionSpec& spec) {
    const std::string why = refuses(shape_of(q, k), spec, q.dtype, static_cast<bool>(doc_start));
    FP_CHECK(why.empty(), "cuDNN attention was called although it refuses: {}", why);
    return graphs(shape_of(q, k), spec, static_cast<bool>(doc_start));
  }

  Device& device;
  cudnnHandle_t handle = nullptr;
  std::string unavailable;
  std::map<decltype(key_of({}, {}, false)), Graphs> known;
};

CudnnAttention::CudnnAttention(Device& device) : state_(std::make_unique<State>(device)) {}
CudnnAttention::~CudnnAttention() = default;

std::string CudnnAttention::refuses(const AttentionShape& shape, const AttentionSpec& spec, DType dtype,
                                    bool has_documents) const {
  return state_->refuses(shape, spec, dtype, has_documents);
}

size_t CudnnAttention::workspace_bytes(const AttentionShape& shape, const AttentionSpec& spec, bool has_documents,
                                       bool backward) const {
  if (!refuses(shape, spec, DType::bf16, has_documents).empty()) return 0;
  const State::Graphs& graphs = state_->graphs(shape, spec, has_documents);
  if (!backward) return graphs.forward->plan.workspace_bytes();
  return aligned(graphs.backward->plan.workspace_bytes()) + graphs.row_sums_bytes;
}

void CudnnAttention::forward(const Tensor& o, const Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v,
                             const Tensor& doc_start, const AttentionSpec& spec) {
  const ForwardGraph& g = *state_->accepted(q, k, doc_start, spec).forward;
  std::byte* workspace = state_->device.scratch(g.plan.workspace_bytes());
  g.plan.run(state_->handle,
             {{g.q.id, q.data},
              {g.k.id, k.data},
              {g.v.id, v.data},
              {g.o.id, o.data},
              {g.lse.id, lse.data},
              {g.doc_start.id, doc_start.data}},
             workspace);
}

void CudnnAttention::backward(const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& d_o, const Tensor& q,
                              const Tensor& k, const Tensor& v, const Tensor& o, const Tensor& lse,
                              const Tensor& doc_start, const AttentionSpec& spec) {
  const State::Graphs& graphs = state_->accepted(q, k, doc_start, spec);
  const BackwardGraph& g = *graphs.backward;
  const size_t plan_bytes = aligned(g.plan.workspace_bytes());
  std::byte* workspace = state_->device.scratch(plan_bytes + graphs.row_sums_bytes);
  for (int64_t b = 0; b < q.shape[0]; b += graphs.sequences)
    g.plan.run(state_->handle,
               {{g.q.id, from(q, b)},
                {g.k.id, from(k, b)},
                {g.v.id, from(v, b)},
                {g.o.id, from(o, b)},
                {g.lse.id, from(lse, b)},
                {g.d_o.id, from(d_o, b)},
                {g.dq.id, from(dq, b)},
                {g.dk.id, from(dk, b)},
                {g.dv.id, from(dv, b)},
                {g.doc_start.id, from(doc_start, b)},
                {g.row_sums.id, workspace + plan_bytes}},
               workspace);
}

}  // namespace fp::cuda
