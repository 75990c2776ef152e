#include "model/model.h"

#include <numeric>

#include "base/error.h"

namespace fp {
namespace {

// Returns the table after it has received the slots that these options need.
const ParamTable& with_slots(ParamTable& table, const ModelOptions& options, const Groups& groups) {
  if (!options.training || !options.optimizer) return table;
  std::vector<StateSlot> slots = state_slots(*options.optimizer);
  if (options.offload_optimizer) offload(slots, options.compute, options.offload_weights);
  if (options.formats.differences && table.shards() > 1)
    slots.push_back({.name = kSentState, .dtype = options.compute, .is_weights = true});
  const int summing = ranks_that_share_errors(groups.mesh, groups.comm_world->nodes()),
            groups_that_sum = table.shards() / summing;
  if (options.formats.gradients && options.formats.feedback > 0 && table.shards() > 1) {
    constexpr int kMost = 48;  // leaves 16 of a checkpoint's 64 states to the optimizer
    if (groups_that_sum > kMost)
      throw ConfigError(fmt::format(
          "communication.error_feedback keeps the errors of {} nodes or ranks, and each is a state of the checkpoint; "
          "legal: up to {}, which more ranks on a node or less data parallelism would make",
          groups_that_sum, kMost));
    for (int i = 0; i < groups_that_sum; ++i)
      slots.push_back({.name = kErrorState + std::to_string(i), .dtype = DType::bf16, .errors_of = i});
  }
  table.set_slots(std::move(slots), summing);
  return table;
}

// Returns the elements of a quantized block. Blocks begin where parameters do, as the largest element sets the scale,
// and as what several tensor-parallel ranks hold must be rounded alike on all of them.
int64_t quantized_block(const ShardFormats& f) {
  return f.gradients ? f.gradients->block : f.weights ? f.weights->block : 1;
}

// Throws ConfigError if copies of kv heads would be quantized in one block with values that differ between the ranks
// that have them, on any tensor-parallel rank.
void require_separate_copies(const ModelSection& section, const ParamTable& table, const HeldParts& held,
                             int64_t block) {
  int64_t legal = block;
  for (int i = 0; i < table.tp(); ++i) {
    ParamTable other(table.tp(), i, table.shards(), table.shard(), held, block);
    declare_parameters(section, other);
    legal = std::gcd(legal, other.separating_block(block));
  }
  if (legal == block) return;
  const std::string blocks = legal % 8 == 0 ? fmt::format("divisors of {} that are multiples of 8, or ", legal) : "";
  throw ConfigError(fmt::format(
      "communication.block = {}: with parallel.tensor = {}, several ranks have copies of kv heads, and a block would "
      "have parts of these beside values that differ between the ranks; legal: {}a smaller parallel.tensor",
      block, table.tp(), blocks));
}

}  // namespace

Model::Model(const ModelSection& section, const ModelOptions& options, Ops& ops, Arena& arena, const Groups& groups,
             Arena* host)
    : arch_(make_architecture(section)),
      table_(groups.mesh.tp(), groups.at.tp, groups.data->size(), groups.data->rank(), options.held,
             quantized_block(options.formats)),
      ids_(declare_parameters(section, table_)),
      params_(std::make_unique<ParamStore>(
          with_slots(table_, options, groups),
          StoreOptions{options.compute, options.training, options.gradients, options.zero_stage,
                       options.optimizer.has_value(), options.subgroup_elements, options.offload_weights},
          arena, host)),
      groups_(complete_groups(groups, table_, params_->state_sharded(), options.formats.needs_nodes())),
      embedding_(env_),
      head_(env_) {
  env_.arch = &arch_;
  env_.ids = &ids_;
  env_.params = params_.get();
  env_.ops = &ops;
  env_.arena = &arena;
  env_.world = groups_.comm_world;
  env_.seed = options.seed;
  env_.tensor_pieces = options.tensor_pieces;
  env_.piece_rows = options.piece_rows;
  env_.overlap = options.overlap;
  env_.formats = options.formats;
  if (const int64_t block = quantized_block(options.formats); block > 1)
    require_separate_copies(section, table_, options.held, block);
  FP_CHECK(!params_->weights_on_host() || (options.offload_optimizer && options.optimizer),
           "weights in host memory without the optimizer's state there");
  if (options.offload_activations) env_.host = host;
  if (host != nullptr) {
    arena.guard(ops.copies());
    host->guard(ops.copies());
  }
  const bool looks_at_others = table_.slots_differ() || options.formats.gradients;
  for (int i = 0; looks_at_others && i < table_.tp(); ++i) {
    tensor_tables_.emplace_back(table_.tp(), i, table_.shards(), table_.shard(), options.held,
                                quantized_block(options.formats));
    declare_parameters(section, tensor_tables_.back());
  }
  place_on_mesh(options);
  upload_tables(options);
  for (int64_t l = 0; l < arch_.layers; ++l)
    blocks_.emplace_back(
        env_, l, options.layer_recompute.empty() ? options.recompute : options.layer_recompute[static_cast<size_t>(l)],
        options.mlp_tile);
}

void Model::place_on_mesh(const ModelOptions& options) {
  const HeadLayout& all = arch_.heads;
  env_.tensor = groups_.tensor.get();
  env_.sequence = groups_.sequence.get();
  const Mesh& mesh = groups_.mesh;
  env_.tokens = {
      mesh.sp(), groups_.at.sp, mesh.tp(), groups_.at.tp, options.megatron_sp && mesh.tp() > 1, options.sequence_chunk};
  const HeadRanges mine = split_heads(all.heads, all.kv_heads, table_.tp(), table_.tp_index());
  env_.heads = {mine.heads.count, mine.kv_heads.count, all.head_dim, all.grouped};
  env_.exchange = HeadExchange(env_.heads, mesh.sp(), groups_.at.sp);
  env_.core = env_.exchange.core();
  env_.first_head = mine.heads.first + env_.exchange.first_head();
  env_.vocabulary = table_.share_of(ids_.embedding.tokens);
}

void Model::upload_tables(const ModelOptions& options) {
  if (arch_.rope.kind != RopeKind::none) {
    const Shape shape{options.positions, arch_.heads.head_dim / 2};
    cos_ = env_.alloc_f32(shape);
    sin_ = env_.alloc_f32(shape);
    env_.rope = {cos_, sin_};
    if (!env_.arena->dry()) {
      const RopeTable table =
          make_rope_table(arch_.rope, arch_.heads.head_dim, arch_.max_position, options.positions, options.positions);
      env_.ops->copy_in({cos_, table.cos.data()});
      env_.ops->copy_in({sin_, table.sin.data()});
    }
  }
  if (!arch_.masked_ids.empty()) {
    const std::vector<int32_t> ids(arch_.masked_ids.begin(), arch_.masked_ids.end());
    masked_ids_ = env_.arena->alloc(DType::i32, {static_cast<int64_t>(ids.size())});
    env_.masked_ids = masked_ids_;
    env_.ops->copy_in({masked_ids_, ids.data()});
  }
}

}  // namespace fp
