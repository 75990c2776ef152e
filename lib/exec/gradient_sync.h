// GradientSync: reduces gradients over ranks. The reduction of a unit starts as soon as its gradient is complete and
// overlaps the rest of the backward pass. Any number of reductions that need no memory of their own may be in flight.
// Only one reduction that needs memory is in flight at a time. Hierarchical sums are an exception: one reduction within
// nodes and one between nodes may be in flight together.
//
// Gradients that are kept whole (ZeRO 0 and 1) accumulate over the micro-batches and are reduced once per step, to all
// ranks or to each rank's shard. Gradients that are kept as shards (ZeRO 2 and 3) are reduced as often as the schedule
// says. They are sent in the type in which they are kept.
//
// Gradients that are kept in host memory (memory.offload.weights) are reduced once per step, to all ranks or to each
// rank's shard, and then copied to host memory. The device memory of a unit is freed when the copy of the next unit
// starts.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "exec/bit_flip.h"
#include "exec/gradient_guard.h"
#include "exec/gradient_outlier.h"
#include "exec/reduction_check.h"
#include "exec/shard_exchange.h"
#include "model/env.h"

namespace fp {

class GradientSync {
 public:
  // `check`: compute checksums, with which check()->verify() can verify the sums over the data group after end_step().
  // `guard`, which must outlive this, chooses with how many bits quantized sums are sent; null: all with the same.
  GradientSync(const ModelEnv&, const Groups&, bool check = false, GradientGuard* guard = nullptr);
  ~GradientSync();
  GradientSync(const GradientSync&) = delete;
  GradientSync& operator=(const GradientSync&) = delete;

  void begin_step();
  // Call before anything is added to the gradients of a unit: allocates their memory if needed.
  void open(int unit);
  // Call when all gradients of a unit since its last reduction are complete; `last`: all of the step. Starts the sum.
  void reduce(int unit, bool last);
  // Waits for all reductions in flight.
  void settle() { settle(0); }
  // Completes the step: afterwards every rank that holds gradients holds those of the step.
  void end_step();
  // Flips a bit of this rank's contribution to the next sum over data ranks, or of the sum that it receives.
  void flip_next(const BitFlip& flip, bool received) { (received ? flip_received_ : flip_sent_) = flip; }
  // From now on, multiplies the gradients of a channel before each sum over data ranks.
  void set_outlier(const GradientOutlier& outlier) { outlier_ = outlier; }
  // Calls the function with each unit of a step, and this rank's part of its gradient, when that is complete. It is on
  // the device then.
  void when_complete(std::function<void(int unit, const Tensor& gradient)> f) { when_complete_ = std::move(f); }
  ReductionCheck* check() { return check_ ? &*check_ : nullptr; }

 private:
  struct Reduction {
    Request request;               // of a sum to all ranks
    ShardExchange::Pending shard;  // of a sum to this rank's shard
    ArenaTensor memory;            // the send buffer, if it is not the store's
    Tensor result, target;  // target += result on completion, or in host memory target = result; empty target: none
    bool first = true, sharded = false, last = true;
    int unit = 0;
  };
  // Returns the number of reductions that may still be in flight when the next one starts; settle() waits for the
  // others.
  size_t rest() const;
  // Starts the sums between nodes of all reductions in flight.
  void advance();
  // Waits for the oldest reductions until at most `rest` are in flight.
  void settle(size_t rest);
  void finish(Reduction);
  void clear_gaps(const Reduction&) const;
  void before_send(int unit, const Tensor& whole);
  void sum_over_tensor_ranks(const ParamUnit&, const Tensor& gradients);
  void sum_segments(const std::vector<IndexRange>&, const Tensor& gradients, int64_t offset, Group&);
  void accumulate(const Tensor& to, const Tensor& from, bool first);
  void start_sum(Reduction&, const Tensor& whole);
  void reduce_kept(int unit, const ParamUnit&);
  void reduce_attached(int unit, const ParamUnit&, bool last);
  // Returns the gradients in the type in which they are kept.
  ArenaTensor narrowed(ArenaTensor) const;
  // Starts to copy gradients to host memory; takes the memory that they are in.
  void depart(const Tensor& home, const Tensor& gradient, ArenaTensor memory);
  void free_departed();
  bool is_shared(int unit) const { return ends_ != nullptr && unit == env_->params->table().divided_unit(); }

  const ModelEnv* env_;
  std::shared_ptr<Group> data_, in_node_, across_nodes_, copies_, ends_;
  ShardExchange shards_;
  std::vector<ArenaTensor> attached_;  // by unit: memory attached to the store
  std::vector<bool> reduced_;          // in this step
  std::deque<Reduction> in_flight_;    // in the order of their start
  std::optional<ReductionCheck> check_;
  GradientGuard* guard_;
  std::vector<std::vector<IndexRange>> gaps_;  // by unit, with the padding of parameters; empty: nothing is rotated
  std::optional<BitFlip> flip_sent_, flip_received_;
  std::optional<GradientOutlier> outlier_;
  std::function<void(int, const Tensor&)> when_complete_;
  ArenaTensor departing_;  // to host memory
  CopyTicket departure_;
};

}  // namespace fp
