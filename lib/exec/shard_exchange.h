// ShardExchange: the collectives between ranks that keep shards of the same parameters (ZeRO): the all-gather of a
// unit's weights and the reduce-scatter of its gradients.
//
// On several nodes both may be hierarchical, so that each value is sent only once from one node to another: a shard is
// sent to one rank of each node, which passes it on within the node; a sum is taken within each node, and then over the
// nodes.
//
// Both can be quantized (ops/block_format.h), as ZeRO++ does (Wang et al. 2023, arXiv:2306.10209). A gather sends the
// codes of each shard (qwZ). A sum (qgZ) is an all-to-all within nodes, whose parts each rank dequantizes, adds up and
// quantizes again, and an all-to-all between nodes: every value is quantized twice, however many ranks there are. On
// one node, or where the ranks are not evenly placed, it is a single all-to-all.
//
// Instead of updated weights, ranks may send the quantized differences between these and the weights that all ranks
// hold (Jia et al. 2024, SDP4Bit, arXiv:2410.15526). All ranks add the same codes to the same weights, which therefore
// stay equal; the quantization error is part of the next difference.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "model/env.h"

namespace fp {

// Parts of a tensor whose sums are sent in another format than the rest, or all of it; nullopt: not quantized. Segments
// ascend and do not overlap.
struct FormattedParts {
  std::optional<BlockFormat> format;
  std::vector<IndexRange> segments;
};

class ShardExchange {
  struct Workspace;

 public:
  // A collective in flight. Sources and destinations as of a Request.
  class Pending {
   public:
    Pending() = default;
    explicit Pending(Request request) : request_(std::move(request)) {}
    // If a second communication is to follow, waits for the first one and starts the second; else does nothing.
    void advance();
    void wait();

   private:
    friend ShardExchange;
    // Keeps memory until wait() has returned.
    Tensor keep(ArenaTensor t) { return memory_.emplace_back(std::move(t)); }

    std::shared_ptr<Workspace>
        workspace_;  // the arena of the members below, if not the model's; first, to be destroyed last
    Request request_;
    std::function<Request()> second_;  // starts it; empty: there is none, or it was started
    std::vector<ArenaTensor> memory_;
    std::function<void()> finish_;  // turns what has been received into the result
  };

  // Formats are those of the environment; the groups are those of a model. `data` is the one that holds the shards.
  ShardExchange(const ModelEnv& env, Group& data, Group* in_node = nullptr, Group* across_nodes = nullptr)
      : env_(&env), data_(&data), in_node_(in_node), across_nodes_(across_nodes) {}

  // whole [N * n] = the parts [n] of all ranks, in rank order. `part` may be its own piece of `whole`; if gathers are
  // quantized, that piece is overwritten with the dequantized values that the other ranks get.
  Pending start_gather(const Tensor& whole, const Tensor& part) const;
  // Whether gathers take no memory, so that any number can be in flight.
  bool gathers_in_place() const { return data_->size() == 1 || (!gather_format() && !through_nodes()); }
  // Whether sums go within nodes and then between them, one communication after the other.
  bool sums_have_two_hops() const {
    return across_nodes_ != nullptr && (env_->formats.gradients || env_->formats.by_nodes);
  }
  // Whether sums that are not in parts take no memory, either.
  bool sums_in_place() const { return data_->size() == 1 || (!env_->formats.gradients && !through_nodes()); }
  // part [n] = the sum over the ranks of their piece rank() of whole [N * n]; part may be that piece.
  // `errors`: those of this unit (ParamStore::errors()). The last quantization of the sum adds them to what it
  // quantizes, and then updates their moving average (ShardFormats::feedback). Empty: no errors are kept.
  Pending start_reduce_scatter(const Tensor& part, const Tensor& whole, const Tensor& errors = {}) const;
  // The same, with these parts of `whole` sent in formats of their own: their sums are taken beside the others, in
  // which they count as 0, and then sent on to the ranks whose pieces they are. `whole` without `part` is undefined
  // afterwards. The first part may be all of `whole`: its format is then that of the rest, in 8 bits or unquantized.
  // The others must be at most a quarter of `whole` in at most `most_segments` segments, and none if the rest is not
  // quantized. Parts must be the same on all ranks. Always takes bytes_with_parts() of the arena, so that a dry run
  // need not know them. A quantized sum of the rest adds `errors` to all elements, those of the parts included, and
  // updates them; one that is not quantized neither adds nor changes them.
  Pending start_reduce_scatter(const Tensor& part, const Tensor& whole, const std::vector<FormattedParts>&,
                               int64_t most_segments, const Tensor& errors = {}) const;
  static constexpr int64_t kLargestShareOfParts = 4;  // 1 / this

  // Updates the weights that all ranks hold, held bf16 [N * n]: adds the quantized differences between the new weights,
  // of which each rank has its shard, mine f32 [n], and the held ones.
  Pending start_add_differences(const Tensor& held, const Tensor& mine) const;
  // The same for ranks of which each node holds the weights once, a part each: kept bf16 [N * n / ranks of a node] is
  // that of this rank, `own` bf16 [n] its shard as the nodes hold it. Needs groups by nodes.
  Pending start_add_differences(const Tensor& kept, const Tensor& own, const Tensor& mine) const;

 private:
  // Formats of a sum: over all ranks or, where it goes through nodes, between them; and within nodes.
  struct SumFormats {
    std::optional<BlockFormat> last, in_node;
  };
  struct SumApart;
  SumFormats formats_of_sums() const { return {env_->formats.gradients, env_->formats.node_gradients}; }
  std::optional<BlockFormat> gather_format() const {
    return env_->formats.differences ? std::nullopt : env_->formats.weights;
  }
  bool through_nodes() const { return across_nodes_ != nullptr && env_->formats.by_nodes; }
  // Starts to send this rank's shard, one row, to the rank on each node that keeps it. Returns the rows that this rank
  // receives: the consecutive shards that it keeps.
  Tensor start_spread(Pending& p, const Tensor& row) const;
  Pending start_sum(const Tensor& part, const Tensor& whole, const SumFormats&, Arena&,
                    const Tensor& errors = {}) const;
  // packed = x + errors, quantized; then updates the errors bf16 [R,n]. Overwrites x f32 [R,n].
  void quantize_with(const Tensor& errors, const Tensor& packed, const Tensor& x, const BlockFormat&) const;
  Pending start_sum_through_nodes(const Tensor& part, const Tensor& whole, Arena&) const;
  SumApart set_apart(const FormattedParts&, const Tensor& whole, Arena&) const;
  void deliver(const SumApart&, const Tensor& part, Arena&) const;
  size_t bytes_of_sum(int64_t elements, DType, const SumFormats&, bool with_errors = false) const;
  size_t bytes_with_parts(int64_t elements, DType, int64_t most_segments) const;
  ArenaTensor packed(const BlockFormat&, int64_t rows, int64_t columns, MemoryClass, Arena&) const;

  const ModelEnv* env_;
  Group *data_, *in_node_, *across_nodes_;
};

}  // namespace fp
