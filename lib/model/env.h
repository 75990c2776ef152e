// ModelEnv: the environment of all parts of a model: architecture, parameters, device, memory and process groups.
//
// The model computes one rank's part. Column-parallel products yield a rank's own columns; row-parallel products yield
// its addend of the sum over the tensor-parallel ranks. Elsewhere every rank has all rows or, under Megatron sequence
// parallelism, its own part of them: gather() and reduce() convert between the two, each the backward of the other.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "model/architecture.h"
#include "model/groups.h"
#include "model/head_exchange.h"
#include "model/param_store.h"
#include "ops/block_format.h"
#include "sharding/tokens.h"

namespace fp {

// Device tensors of this rank's part of one chunk of a micro-batch of B samples, mostly the only chunk: M rows
// (sharding/tokens.h), of which M' are its own under Megatron sequence parallelism (else M' = M). T: number of tokens
// of each sequence, padding included.
struct MicroBatch {
  size_t chunk = 0;
  TokenShare share;
  std::vector<TokenRun> runs;  // the own rows
  Tensor ids, targets;         // i32 [M]; id -1: another rank's part of the vocabulary, target -1: ignored
  Tensor row_positions;        // i32 [M], learned positions only
  Tensor embed_positions;      // the same, but -1 where ids are -1
  Tensor positions;            // i32 [B*T], of the tokens of all sequence-parallel ranks
  Tensor doc_start;            // i32 [B,T], or empty: no masking between documents
  Tensor sample_ids;           // i32 [B,2], low and high words of the global sample index
  bool training = false;       // apply dropout, and keep what a backward pass needs
  int64_t samples() const { return share.samples; }
  int64_t length() const { return share.length; }
  int64_t rows() const { return share.rows(); }
  int64_t local_rows() const { return share.local_rows; }
};

// Quantization formats in which ranks exchange shards of weights and gradients (ZeRO); nullopt: not quantized.
struct ShardFormats {
  std::optional<BlockFormat> weights = {}, gradients = {};
  std::optional<BlockFormat> node_gradients = {};  // within nodes; set if `gradients` is
  bool node_weights = false;                       // each node keeps the weights that it has gathered
  bool differences = false;                        // `weights` is that of the differences of an update
  bool by_nodes = false;                           // gathers, and sums that are not quantized, go through nodes
  // Error feedback (LoCo: Xie et al. 2024, arXiv:2407.04480): the weight of the newest error in a moving average of the
  // errors of a sum's last quantization, which is added to the next sum. 0: off.
  double feedback = 0;
  bool needs_nodes() const { return gradients || node_weights || by_nodes; }
};

// Pieces into which tensor-parallel communication of rows is split, so that some are in flight while others are
// computed. Under Megatron sequence parallelism each piece has the same number of own rows of every rank, in rank
// order; otherwise a piece is a range of adjacent rows.
struct RowPieces {
  int64_t count = 1;
  int64_t rows = 0, own = 0, first = 0;  // of a piece: rows of all ranks, rows of this rank, index of its first row
  Tensor all_of(const Tensor& x, int64_t piece) const { return x.slice(piece * rows, rows); }      // x [M,C]
  Tensor own_of(const Tensor& own_rows, int64_t i) const { return own_rows.slice(i * own, own); }  // [M',C]
  Tensor own_place(const Tensor& x, int64_t piece) const { return x.slice(piece * rows + first, own); }
};

// Callbacks of a computation in pieces: before(i) is called before piece i of the input is read, after(i, result) once
// piece i of the result [M,h] is computed.
struct RowFlow {
  RowPieces pieces;
  std::function<void(int64_t)> before;
  std::function<void(int64_t, const Tensor&)> after;
};

// Rows in flight between the tensor-parallel ranks, in pieces, with the memory that they occupy.
class MovingRows {
 public:
  MovingRows(ArenaTensor from, ArenaTensor to) : from_(std::move(from)), to_(std::move(to)) {}
  void add(Request piece) { pieces_.push_back(std::move(piece)); }
  void wait(int64_t piece) { pieces_[static_cast<size_t>(piece)].wait(); }
  // Returns the memory of the rows, which stays in use until all have arrived.
  ArenaTensor take() { return std::move(to_); }
  // Returns the rows, all of which have arrived.
  ArenaTensor wait() {
    for (Request& r : pieces_) r.wait();
    from_.reset();
    return take();
  }
  // Sets the send buffer, which is kept until wait() has returned.
  void keep(ArenaTensor from) { from_ = std::move(from); }
  const Tensor& to() const { return *to_; }
  // Sets the memory of the rows, if they are summed in place.
  void set_result(ArenaTensor to) { to_ = std::move(to); }

 private:
  std::vector<Request> pieces_;
  ArenaTensor from_, to_;
};

struct ModelEnv {
  const Architecture* arch = nullptr;
  const ModelIds* ids = nullptr;
  ParamStore* params = nullptr;
  Ops* ops = nullptr;
  Arena* arena = nullptr;
  Arena* host = nullptr;  // for activations that are offloaded; null: none are
  World* world = nullptr;
  Group *tensor = nullptr, *sequence = nullptr;
  HeadExchange exchange;   // around the attention core
  TokenCut tokens;         // of the mesh
  HeadLayout heads;        // of this rank's QKV projection
  HeadLayout core;         // of its attention core, after the head exchange
  int64_t first_head = 0;  // of the core, among the model's heads
  IndexRange vocabulary;   // ids in its part of the embedding and the LM head, padding included
  Rope rope;
  Tensor masked_ids;  // i32, may be empty
  uint64_t seed = 0;
  int64_t tensor_pieces = 1, piece_rows = 1;  // largest number of pieces, and least own rows of one
  bool overlap = true;                        // communication of pieces overlaps with computation
  ShardFormats formats;

  ArenaTensor alloc(const Shape& s) const { return arena->alloc(params->compute(), s); }
  ArenaTensor alloc_f32(const Shape& s) const { return arena->alloc(DType::f32, s); }
  ArenaTensor widened(const Tensor& x) const;  // x as f32: a view of x if it is f32, else a copy
  Tensor weight(ParamId id) const { return id < 0 ? Tensor{} : params->weight(id); }
  Tensor bias(const LinearIds& l) const { return l.bias < 0 ? Tensor{} : params->weight(l.bias, l.last_bias); }

  // ---- across the tensor-parallel ranks -----------------------------------------------------------------------------
  // Returns the own rows of x [M,C].
  Tensor own_rows(const Tensor& x, const MicroBatch& b) const { return x.slice(b.share.first_row, b.local_rows()); }
  // Fills x [M,C], in which only the own rows are set, with the rows of the other ranks.
  void gather(const Tensor& x, const MicroBatch& b) const { start_gather(x, b).wait(); }
  [[nodiscard]] Request start_gather(const Tensor& x, const MicroBatch& b) const {
    return start_gather(x, whole(b), 0);
  }
  // Starts to gather all rows [M,C] in the order of pieces, from the own rows [M',C] of each rank;
  // start_copy_of_whole() leaves `own` as it is, and it must not change until the rows have arrived.
  MovingRows start_whole(ArenaTensor own, const MicroBatch&, const RowPieces&) const;
  MovingRows start_copy_of_whole(const Tensor& own, const MicroBatch&, const RowPieces&) const;
  // Returns the own rows [M',C] of the sum over the ranks of x [M,C].
  ArenaTensor reduce(ArenaTensor x, const MicroBatch& b) const {
    return start_reduce(std::move(x), b, whole(b)).wait();
  }
  MovingRows start_reduce(ArenaTensor x, const MicroBatch&, const RowPieces&) const;
  // Returns the pieces for a computation in which the order of rows makes no difference, or one of all rows.
  RowPieces pieces(const MicroBatch&) const;
  RowPieces whole(const MicroBatch&) const;
  // Returns rows [M,C] in the order of tokens from those in the order of pieces, and the other way.
  ArenaTensor in_token_order(ArenaTensor x, const RowPieces& p) const { return reordered(std::move(x), p, p.count); }
  ArenaTensor in_piece_order(ArenaTensor x, const RowPieces& p) const {
    return reordered(std::move(x), p, p.count == 1 ? 1 : p.rows / p.own);
  }
  // Starts to gather the rows of a piece, of which the own ones are set.
  Request start_gather(const Tensor& x, const RowPieces& p, int64_t piece) const;
  // Returns r, which has just been started; unless `overlap` is set, waits for it first.
  Request started(Request) const;
  // start_sum() returns the destination of the own rows [M',C] of a sum over the ranks. sum_piece() starts to sum a
  // piece of x [M,C] into it. hand_over() passes x to it after all pieces. Without Megatron sequence parallelism the
  // own rows are x itself.
  MovingRows start_sum(const MicroBatch&, int64_t columns) const;
  void sum_piece(MovingRows&, const Tensor& x, const RowPieces& p, int64_t piece) const;
  void hand_over(MovingRows& sum, ArenaTensor x) const;
  // Lets rows that are on their way advance, where that needs the host.
  void progress() const {
    if (tensor->size() > 1) world->progress();
  }

  void linear(const Tensor& y, const Tensor& x, const LinearIds& l) const {
    ops->linear({y, x, params->weight(l.first, l.last), bias(l)});
  }
  // Computes this rank's addend of a row-parallel product; one rank adds the bias.
  void linear_part(const Tensor& y, const Tensor& x, const LinearIds& l) const {
    ops->linear({y, x, params->weight(l.first, l.last), params->table().adds_to_sum() ? bias(l) : Tensor{}});
  }
  void linear_backward_input(const Tensor& dx, const Tensor& dy, const LinearIds& l) const {
    ops->linear_backward_input({dx, dy, params->weight(l.first, l.last)});
  }
  void linear_gelu(const Tensor& y, const Tensor& u, const Tensor& x, const LinearIds& l) const {
    ops->linear_gelu({y, u, x, params->weight(l.first, l.last), bias(l)});
  }
  void linear_backward_input_gelu(const Tensor& du, const Tensor& dy, const Tensor& u, const LinearIds& l) const {
    ops->linear_backward_input_gelu({du, dy, params->weight(l.first, l.last), u});
  }
  void linear_backward_weight(const Tensor& dy, const Tensor& x, const LinearIds& l) const;
  void norm(const Tensor& y, const Tensor& sum, const Tensor& stats, const Tensor& x, const Tensor& residual,
            const NormIds& n) const {
    ops->norm({y, sum, stats, x, residual, weight(n.gain), weight(n.bias), arch->norm});
  }
  void norm_backward_input(const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& stats, const NormIds& n,
                           Write w) const {
    ops->norm_backward_input({dx, dy, x, stats, weight(n.gain), arch->norm, w});
  }
  void norm_backward_weight(const Tensor& dy, const Tensor& x, const Tensor& stats, const NormIds& n) const;

  ArenaTensor reordered(ArenaTensor x, const RowPieces&, int64_t outer) const;

  Dropout dropout(Purpose purpose, double p, int64_t layer) const {
    return {p, seed, purpose, static_cast<uint32_t>(layer)};
  }
  // Applies dropout in place to the own rows x [M',C]; does nothing at p = 0 or outside training.
  void drop(const Tensor& x, const MicroBatch&, const Dropout&) const;
};

}  // namespace fp
