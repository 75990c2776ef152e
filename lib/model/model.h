// Model: embedding, blocks and LM head over one rank's parameters. It owns the rotary tables; the executor decides when
// each part runs.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "model/block.h"
#include "model/embedding.h"
#include "model/lm_head.h"

namespace fp {

struct ModelOptions {
  DType compute = DType::bf16;
  bool training = true;          // false: weights only
  DType gradients = DType::f32;  // type in which gradients are kept and sent
  int zero_stage = 0;
  bool megatron_sp = false;  // Megatron sequence parallelism over the tensor-parallel ranks
  Recompute recompute = Recompute::none;
  uint64_t seed = 0;
  int64_t positions = 0;                        // length of the rotary tables: that of the longest sequence
  std::vector<Recompute> layer_recompute = {};  // by layer; empty: `recompute` for all
  int64_t sequence_chunk = 0;                   // largest number of tokens of a chunk; 0: any
  int64_t mlp_tile = 0;                         // rows of which an MLP is computed at a time; 0: all
  HeldParts held = {};                          // parts of the model on this rank
  // With training: whose states are kept; nullopt: gradients only, no update.
  std::optional<OptimizerKind> optimizer = OptimizerKind::adamw;
  bool offload_optimizer = false;    // keep their states and the master weights in host memory
  bool offload_activations = false;  // keep the inputs of recomputed blocks there
  bool offload_weights = false;      // keep weights and gradients there; with training and offload_optimizer
  ShardFormats formats = {};
  // Largest number of pieces in which rows pass between tensor-parallel ranks, and least own rows of one.
  int64_t tensor_pieces = 1, piece_rows = 256;
  bool overlap = true;  // communication overlaps with computation; false: wait for pieces and updated weights at once
  int64_t subgroup_elements = StoreOptions{}.subgroup_elements;  // elements of each that are on the device at a time
};

class Model {
 public:
  // The section must be resolved. Memory comes from the arena, and from `host` for what is offloaded; weights are
  // uninitialised until params().initialize or a load.
  Model(const ModelSection&, const ModelOptions&, Ops&, Arena&, const Groups&, Arena* host = nullptr);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const Architecture& architecture() const { return arch_; }
  const ParamTable& table() const { return table_; }
  ParamStore& params() { return *params_; }
  const ModelEnv& env() const { return env_; }
  const Groups& groups() const { return groups_; }
  const Embedding& embedding() const { return embedding_; }
  // All blocks, by layer; only those whose parameters this rank holds can be run.
  const std::vector<Block>& blocks() const { return blocks_; }
  const LmHead& head() const { return head_; }
  // The parameter tables of all ranks of the tensor group. Empty unless they are needed: for optimizers that need whole
  // matrices, and for gradients that all these ranks must quantize in the same way.
  const std::vector<ParamTable>& tensor_tables() const { return tensor_tables_; }

 private:
  void place_on_mesh(const ModelOptions&);
  void upload_tables(const ModelOptions&);

  Architecture arch_;
  ParamTable table_;
  ModelIds ids_;
  std::unique_ptr<ParamStore> params_;
  std::vector<ParamTable> tensor_tables_;
  ArenaTensor cos_, sin_, masked_ids_;
  Groups groups_;
  ModelEnv env_;
  Embedding embedding_;
  std::vector<Block> blocks_;
  LmHead head_;
};

}  // namespace fp
