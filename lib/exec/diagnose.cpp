// Finds the origin of a non-finite step: repeats the forward pass stage by stage and searches every intermediate result
// on the device. All ranks search to the end, as they communicate on the way; the finding that is first in the order of
// computation is reported.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "exec/device_batch.h"
#include "exec/executor.h"
#include "exec/pieces.h"
#include "io/json.h"

namespace fp {
namespace {

struct Finding {
  int64_t order = 0;  // place in the order of computation, the same on all ranks
  std::string text;
};

class Search {
  static constexpr int64_t kGradients = int64_t{1} << 40;  // after all forward passes

 public:
  explicit Search(const ModelEnv& env) : env_(&env) {}
  // The tensors that follow belong to this micro-batch and layer (-1: the embedding, `layers`: the LM head).
  void begin(size_t index, const Batch& b, const MicroBatch& m, int64_t layer) {
    batch_ = &b;
    micro_batch_ = &m;
    constexpr int64_t kOfLayer = 16;
    const int64_t layers = env_->arch->layers + 2;
    order_ = parameters() + (static_cast<int64_t>(index) * layers + layer + 1) * kOfLayer;
  }

  // Searches the weights of these parameters, which must be gathered.
  void weights(ParamId first, ParamId last);
  // Searches a result that has the micro-batch's own rows, all rows of this rank, or all tokens of its heads; an empty
  // tensor is none.
  // `in_pieces`: all rows are in the order in which they pass between tensor-parallel ranks (RowPieces).
  void tokens(const std::string& name, const Tensor&, bool in_pieces = false);
  void block(int64_t layer, const BlockState&, const KeyValues::Pair&, const Tensor& out);
  void gradients(std::span<const Batch>);
  const std::optional<Finding>& first() const { return first_; }

 private:
  std::vector<size_t> bad_rows(const Tensor&, int64_t rows) const;
  bool any_bad(const Tensor& flat) const;
  uint64_t sample_of(int64_t row, int64_t rows) const;
  int64_t row_of_piece(int64_t row) const;
  int64_t parameters() const { return static_cast<int64_t>(env_->params->table().size()); }

  const ModelEnv* env_;
  const Batch* batch_ = nullptr;
  const MicroBatch* micro_batch_ = nullptr;  // a chunk
  int64_t order_ = 0;
  std::optional<Finding> first_;
};

std::string list(const std::set<uint64_t>& ids) {
  std::string text;
  size_t shown = 0;
  for (const uint64_t id : ids) {
    if (shown++ == 8) break;
    text += (text.empty() ? "" : ", ") + std::to_string(id);
  }
  return ids.size() > 8 ? fmt::format("{} and {} more", text, ids.size() - 8) : text;
}

// Returns which of the `rows` rows of t hold a non-finite value.
std::vector<size_t> Search::bad_rows(const Tensor& t, int64_t rows) const {
  const ArenaTensor first = env_->arena->alloc(DType::i32, {rows});
  env_->ops->find_nonfinite({first, t.reshaped({rows, t.elements() / rows})});
  std::vector<int32_t> columns(static_cast<size_t>(rows));
  env_->ops->copy_out({columns.data(), first});
  std::vector<size_t> bad;
  for (size_t i = 0; i < columns.size(); ++i)
    if (columns[i] >= 0) bad.push_back(i);
  return bad;
}

uint64_t Search::sample_of(int64_t row, int64_t rows) const {
  const TokenShare& share = micro_batch_->share;
  int64_t sample = row / (rows / share.samples);  // the rows are whole samples
  if (rows == share.local_rows) sample = (share.first_row + row) / share.tokens;
  return batch_->sample_ids[static_cast<size_t>(sample)];
}

// Returns the place in the order of tokens of a row of all ranks in pieces.
int64_t Search::row_of_piece(int64_t row) const {
  const RowPieces p = env_->pieces(*micro_batch_);
  if (!env_->tokens.megatron || p.count == 1) return row;
  return row % p.rows / p.own * micro_batch_->share.local_rows + row / p.rows * p.own + row % p.own;
}

// Searches a long range piece by piece, in so little memory that the dry run need not count it.
bool Search::any_bad(const Tensor& flat) const {
  bool found = false;
  for_each_piece(*env_, flat, [&](const Tensor& part, int64_t) {
    for (int64_t at = 0; !found && at < part.elements(); at += kPieceElements)
      found = !bad_rows(part.slice(at, std::min(kPieceElements, part.elements() - at)), 1).empty();
    return !found;
  });
  return found;
}

void Search::weights(ParamId first, ParamId last) {
  for (ParamId id = first; id <= last; ++id) {
    const Param& p = env_->params->table()[id];
    if (first_ && first_->order <= id) continue;
    const Tensor w = env_->params->weight(id);
    if (any_bad(w.reshaped({w.elements()})))
      first_ = {id, fmt::format("first non-finite tensor: parameter {}{}", p.name,
                                p.layer < 0 ? "" : fmt::format(" (layer {})", p.layer))};
  }
}

void Search::tokens(const std::string& name, const Tensor& t, bool in_pieces) {
  ++order_;
  if (!t || (first_ && first_->order <= order_)) return;
  const TokenShare& share = micro_batch_->share;
  const int64_t all = share.samples * share.length, elements = t.elements();
  const int64_t leading = t.shape.rank() == 4 ? all : t.shape[0];
  FP_CHECK(elements % leading == 0, "{} of shape {}", name, t.shape.str());
  std::set<uint64_t> samples;
  for (const size_t bad : bad_rows(t, leading)) {
    const auto row = static_cast<int64_t>(bad);
    samples.insert(sample_of(in_pieces ? row_of_piece(row) : row, leading));
  }
  if (!samples.empty())
    first_ = {order_, fmt::format("first non-finite tensor: {}; sample ids: {}", name, list(samples))};
}

void Search::block(int64_t layer, const BlockState& s, const KeyValues::Pair& kv, const Tensor& out) {
  struct Step {
    const char* name;
    const Tensor& tensor;
    bool in_pieces = false;
  };
  const Step steps[] = {{"attention norm", s.attention.x, true},
                        {"queries", s.attention.q},
                        {"keys", kv.k},
                        {"values", kv.v},
                        {"attention output", s.attention.o},
                        {"residual after attention", s.x1},
                        {"MLP norm", s.mlp.x, true},
                        {"MLP pre-activation", s.mlp.u, true},
                        {"MLP activation", s.mlp.g, true},
                        {"block output", out}};
  for (const Step& step : steps) tokens(fmt::format("layer {} {}", layer, step.name), step.tensor, step.in_pieces);
}

// Backward runs from the last layer to the first, so the last bad gradient in table order arose first.
void Search::gradients(std::span<const Batch> micro_batches) {
  const ParamStore& store = *env_->params;
  std::set<uint64_t> samples;
  for (const Batch& b : micro_batches) samples.insert(b.sample_ids.begin(), b.sample_ids.end());
  for (const ParamUnit& u : store.table().units()) {
    const Tensor shard = store.shard_of_gradients(u);
    const int64_t origin = store.table().shard_of(u, store.table().shard()).first;
    for (const ParamPart& part : store.table().parts(u, false)) {
      const Param& p = store.table()[part.id];
      const int64_t order = kGradients + parameters() - part.id;
      if (first_ && first_->order <= order) continue;
      if (any_bad(shard.slice(p.offset + part.first - origin, part.count)))
        first_ = {order, fmt::format("first non-finite tensor: gradient of {} (layer {}); sample ids: {}", p.name,
                                     p.layer, list(samples))};
    }
  }
}

// Returns the first finding of all ranks, with its rank if there are several.
std::string agree(const std::optional<Finding>& mine, Group& world) {
  const nlohmann::json own = mine ? nlohmann::json{{"order", mine->order}, {"text", mine->text}} : nlohmann::json();
  const std::vector<std::string> all = world.all_gather(own.dump());
  std::optional<Finding> first;
  for (size_t r = 0; r < all.size(); ++r) {
    const nlohmann::json of_rank = parse_json(all[r], "the finding of a rank", kJsonOfRanks);
    if (of_rank.is_null() || (first && of_rank["order"] >= first->order)) continue;
    const std::string where = all.size() > 1 ? fmt::format("; on rank {}", r) : "";
    first = {of_rank["order"].get<int64_t>(), of_rank["text"].get<std::string>() + where};
  }
  if (!first)
    return "every tensor of the repeated step is finite: the fault did not happen again (suspect the hardware)";
  return first->text;
}

// Runs the micro-batches one after another through the stages of the first pipe.
class ForwardInspection {
 public:
  ForwardInspection(Model& model, const Groups& groups, const PipelinePlan& plan, const Losses& losses,
                    WeightGather& weights, StageLinks& links, Search& search)
      : model_(model),
        rank_(groups.at.pp),
        plan_(plan),
        losses_(losses),
        weights_(weights),
        links_(links),
        search_(search) {}

  // Ranks that hold a stage for the other pipe take part in gathering its weights.
  void run(std::span<const Batch> micro_batches) {
    for (size_t b = 0; b < micro_batches.size(); ++b)
      for (const int stage : plan_.placement.stages_of(rank_)) {
        const DeviceBatch uploaded = upload(model_.env(), micro_batches[b], true);
        const bool mine = rank_of(stage) == rank_;
        const Action a{ActionKind::forward, 0, false, stage, static_cast<int>(b)};
        std::vector<OffloadedTensor> x(uploaded.chunks.size());
        const Place at{b, micro_batches[b], uploaded};
        ArenaTensor input = mine && stage > 0 ? take_input(a, micro_batches[b]) : ArenaTensor();
        for (size_t c = 0; input && c < x.size(); ++c)
          x[c] = OffloadedTensor(take_chunk(model_.env(), input, uploaded, c));
        input.reset();
        const StagePart& part = plan_.stages[static_cast<size_t>(stage)];
        inspect(part, at, mine, x);
        if (mine && !part.head) pass_on(a, at, x);
      }
    links_.finish();
  }

 private:
  using Direction = StageLinks::Direction;
  struct Place {
    size_t index;
    const Batch& batch;
    const DeviceBatch& device;
  };
  int rank_of(int stage) const { return plan_.placement.rank_of(0, stage); }

  ArenaTensor take_input(const Action& a, const Batch& b) {
    const ModelEnv& e = model_.env();
    if (rank_of(a.stage - 1) != rank_)
      links_.receive(Direction::forward, a, e.alloc({local_rows(shares_of(e, b)), e.arch->hidden}));
    return links_.take(Direction::forward, a).take();
  }

  void pass_on(const Action& a, const Place& at, std::vector<OffloadedTensor>& x) {
    ArenaTensor whole;
    for (size_t c = 0; c < x.size(); ++c) collect(model_.env(), x[c].take(), at.device, c, whole);
    links_.give(Direction::forward, a, std::move(whole));
    if (rank_of(a.stage + 1) != rank_) links_.send(Direction::forward, a);
  }

  template <class Work>
  void with_weights(const std::vector<int>& units, bool mine, const Work& work) {
    for (const int u : units) weights_.acquire(u);
    if (mine) work();
    for (const int u : units) weights_.release(u);
  }

  // Replaces x, the input of the stage by chunk, by its output.
  void inspect(const StagePart& part, const Place& at, bool mine, std::vector<OffloadedTensor>& x) {
    const ModelEnv& env = model_.env();
    const ParamTable& table = model_.table();
    const bool offloads_stream = env.host != nullptr && x.size() > 1;
    const auto for_chunks = [&](const std::vector<int>& units, int64_t layer, const auto& work) {
      with_weights(units, mine, [&] {
        for (const MicroBatch& m : at.device.chunks) {
          search_.begin(at.index, at.batch, m, layer);
          work(m, x[m.chunk]);
          if (offloads_stream) x[m.chunk].send(env);
          x[m.chunk].release();
        }
      });
    };
    if (part.embedding)
      for_chunks(table.embedding_units(), -1, [&](const MicroBatch& m, OffloadedTensor& out) {
        out = OffloadedTensor(model_.embedding().forward(m));
        search_.tokens("embedding output", out.on_device());
      });
    for (int64_t l = part.first_layer; l < part.first_layer + part.layers; ++l) {
      // Keeps every intermediate but those that exist for a tile at a time.
      const Block block(env, l, Recompute::none, model_.blocks()[static_cast<size_t>(l)].mlp_tile());
      KeyValues kv(env, x.size(), offloads_stream);
      for_chunks({table.layer_unit(l)}, l, [&](const MicroBatch& m, OffloadedTensor& out) {
        BlockState state;
        out = OffloadedTensor(block.forward(out.on_device(), m, state, kv));
        search_.block(l, state, kv.on_device(m.chunk), out.on_device());
        kv.release(m.chunk);
      });
    }
    if (!part.head) return;
    for_chunks(table.head_units(), model_.architecture().layers, [&](const MicroBatch& m, OffloadedTensor& out) {
      const ArenaTensor loss = env.alloc_f32({m.rows(), 2});
      model_.head().forward(out.on_device(), m, loss, losses_.of_tokens());
      search_.tokens("loss", loss);
    });
  }

  Model& model_;
  int rank_;
  const PipelinePlan& plan_;
  const Losses& losses_;
  WeightGather& weights_;
  StageLinks& links_;
  Search& search_;
};

}  // namespace

std::string Executor::diagnose(std::span<const Batch> micro_batches) {
  Search search(model_->env());
  settle_weights();
  const auto& units = model_->table().units();
  for (size_t u = 0; u < units.size(); ++u) {
    weights_.acquire(static_cast<int>(u));
    search.weights(units[u].first, units[u].last);
    weights_.release(static_cast<int>(u));
  }
  ForwardInspection(*model_, groups_, plan_, losses_, weights_, links_, search).run(micro_batches);
  search.gradients(micro_batches);
  return agree(search.first(), *groups_.world);
}

}  // namespace fp
