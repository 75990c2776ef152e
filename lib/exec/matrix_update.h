// MatrixUpdate: the part of Muon's update that needs whole matrices. Ranks keep parts of a matrix: ZeRO's shards and
// the slices of tensor parallelism. In each of several rounds the ranks send their parts of some matrices to the
// matrices' owners, which orthogonalize them and send each rank the new values of what it keeps.
//
// While a round is orthogonalized, the parts of the next round and the results of the previous one are in flight. A
// round has about one matrix for each rank, so memory does not grow with the model's depth; every rank takes as much as
// the rank that needs most. Without ZeRO, data-parallel ranks hold the same and compute the same: only tensor-parallel
// ranks exchange.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "model/env.h"

namespace fp {

// A matrix that is orthogonalized by itself: a parameter, or one of the pieces (Q, K, V; gate, up) of its partition.
struct MuonMatrix {
  ParamId id = 0;
  int64_t first = 0;  // row of the parameter
  int64_t rows = 0, cols = 0;
};

// Returns the matrices among the parameters that this rank holds, in table order.
std::vector<MuonMatrix> muon_matrices(const ParamTable&);

// Returns the rank that owns each item, of `ranks` ranks, by the longest-processing-time-first rule: items are assigned
// in order of decreasing cost, each to the rank with the smallest total cost so far.
std::vector<int> balanced_owners(std::span<const double> costs, int ranks);

// Matrices that are exchanged and orthogonalized at the same time, and the rank that owns each.
struct MatrixRound {
  std::span<const MuonMatrix> matrices;
  std::vector<int> owners;
};

// Divides the matrices into rounds of about one of the largest for each of `ranks` ranks.
std::vector<MatrixRound> matrix_rounds(std::span<const MuonMatrix>, int ranks);

class MatrixUpdate {
 public:
  // Sets the compute weights of a part of a parameter from its new master weights, which are on the device.
  using SetWeights = std::function<void(const ParamPart&, const Tensor& master)>;

  // `group`: the ranks that keep parts of the same matrices, those with the same shard side by side. `tables`: of the
  // tensor-parallel ranks among them.
  MatrixUpdate(const ModelEnv&, Group& group, std::vector<ParamTable> tables);

  // An update of the parameters: begin(); add() for the subgroups of each unit, in order; finish(). Collective over the
  // group. `gradient` f32: of a flat range, as MuonOptimizer left it; it may change when add() returns.
  void begin(const OptimizerSection&, double lr, SetWeights);
  void add(const IndexRange& flat, const Tensor& gradient);
  void finish();

 private:
  // Contiguous elements of a buffer that are a box of a matrix.
  struct Box {
    int64_t row = 0, column = 0, rows = 0, columns = 0;
    int64_t offset = 0;
    int64_t elements() const { return rows * columns; }
  };
  // A box of a matrix that a rank keeps, from element `first` of its part of the parameter on.
  struct Kept {
    int rank = 0;
    size_t matrix = 0;  // of the round
    Box box;
    int64_t first = 0;
  };
  // A part of a parameter that this rank keeps, in a buffer.
  struct Held {
    ParamPart part;
    int64_t offset = 0;
  };
  struct Owned {
    size_t number = 0;  // in the round
    MuonMatrix matrix;
    std::vector<Box> parts, results;  // in the buffers that are received and sent
  };
  // Elements of the buffers of the rank that needs most.
  struct Sizes {
    int64_t sent = 0, received = 0, results_sent = 0, results_received = 0;
    int64_t norms = 0, matrix = 0, workspace = 0;
  };
  struct Round {
    Sizes most;
    std::vector<Held> parts, results;
    int64_t end = 0;  // of the parts in the table's flat buffers
    std::vector<Owned> owned;
    std::vector<int64_t> sends, receives;                // elements by rank: of the parts
    std::vector<int64_t> result_sends, result_receives;  // and of the results
  };
  struct Flight {
    const Round* round = nullptr;
    ArenaTensor sent, received;
    Request request;
  };

  std::vector<int> keepers(const MuonMatrix&) const;
  void add_kept(int rank, const MuonMatrix&, size_t number, bool once, std::vector<Kept>&) const;
  Round make_round(const MatrixRound&) const;
  void add_exchange(Round&, const MatrixRound&, bool results) const;
  IndexRange flat_of(const ParamPart& p) const { return {env_->params->table()[p.id].offset + p.first, p.count}; }
  ArenaTensor buffer(int64_t elements) const {
    return env_->arena->alloc(DType::f32, {elements}, MemoryClass::workspace);
  }
  void launch();
  void settle_parts();
  void settle_results();
  std::vector<double> norms(const Round&, const Tensor& parts) const;
  void compute(const Round&, const Tensor& parts, const Tensor& results) const;
  void apply(const Round&, const Tensor& results) const;

  const ModelEnv* env_;
  Group* group_;
  std::vector<ParamTable> tables_;  // by tensor-parallel rank
  std::vector<Round> rounds_;
  OptimizerSection spec_;
  double lr_ = 0;
  SetWeights set_weights_;
  size_t next_ = 0;                        // round
  ArenaTensor packed_;                     // its parts that were added
  std::optional<Flight> parts_, results_;  // under way
};

}  // namespace fp
