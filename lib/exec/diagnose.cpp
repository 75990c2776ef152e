// Finding where a step went wrong: the same forward pass again, every intermediate result searched on the device. All
// ranks search all of it, as they have to communicate on the way; the first finding of any of them counts.
#include <algorithm>
#include <optional>
#include <set>

#include "exec/executor.h"
#include "exec/staged.h"

namespace fp {
namespace {

struct Finding {
  int order = 0;  // place in the order of computation, the same on all ranks
  std::string text;
};

class Search {
 public:
  explicit Search(const ModelEnv& env) : env_(&env) {}
  void begin(const Batch& b, const MicroBatch& m) {
    batch_ = &b;
    micro_batch_ = &m;
  }

  // Weights of these parameters, which must be there.
  void weights(ParamId first, ParamId last);
  // A result with the own rows of the micro-batch, with all of this rank's, or with all tokens of its heads.
  void tokens(const std::string& name, const Tensor&);
  void block(int64_t layer, const BlockState&, const Tensor& out);
  void gradients(std::span<const Batch>);
  const std::optional<Finding>& first() const { return first_; }

 private:
  std::vector<size_t> bad_rows(const Tensor&, int64_t rows) const;
  bool any_bad(const Tensor& flat) const;
  uint64_t sample_of(int64_t row, int64_t rows) const;

  const ModelEnv* env_;
  const Batch* batch_ = nullptr;
  const MicroBatch* micro_batch_ = nullptr;
  int order_ = 0;
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

// Those of the `rows` rows of t that hold a value that is not finite.
std::vector<size_t> Search::bad_rows(const Tensor& t, int64_t rows) const {
  const ArenaTensor first = env_->arena->alloc(DType::i32, {rows});
  env_->ops->find_nonfinite(first, t.reshaped({rows, t.elements() / rows}));
  std::vector<int32_t> columns(static_cast<size_t>(rows));
  env_->ops->copy_out(columns.data(), first);
  std::vector<size_t> bad;
  for (size_t i = 0; i < columns.size(); ++i)
    if (columns[i] >= 0) bad.push_back(i);
  return bad;
}

uint64_t Search::sample_of(int64_t row, int64_t rows) const {
  const TokenShare& share = micro_batch_->share;
  int64_t sample = row / (rows / share.samples);  // whole samples, of which ever so many tokens
  if (rows == share.local_rows) sample = (share.first_row + row) / share.tokens;
  return batch_->sample_ids[static_cast<size_t>(sample)];
}

// A flat range that may be long: searched a piece at a time, in memory that the dry run need not know of.
bool Search::any_bad(const Tensor& flat) const {
  constexpr int64_t kPiece = 1 << 20;
  for (int64_t at = 0; at < flat.elements(); at += kPiece)
    if (!bad_rows(flat.slice(at, std::min(kPiece, flat.elements() - at)), 1).empty()) return true;
  return false;
}

void Search::weights(ParamId first, ParamId last) {
  for (ParamId id = first; id <= last; ++id) {
    const Param& p = env_->params->table()[id];
    ++order_;
    if (first_) continue;
    const Tensor w = env_->params->weight(id);
    if (any_bad(w.reshaped({w.elements()})))
      first_ = {order_, fmt::format("first non-finite tensor: parameter {} (layer {})", p.name, p.layer)};
  }
}

void Search::tokens(const std::string& name, const Tensor& t) {
  ++order_;
  if (first_) return;
  const TokenShare& share = micro_batch_->share;
  const int64_t all = share.samples * share.length, elements = t.elements();
  const int64_t leading = t.shape.rank() == 4 ? all : t.shape[0];
  FP_CHECK(elements % leading == 0, "{} of shape {}", name, t.shape.str());
  std::set<uint64_t> samples;
  for (const size_t row : bad_rows(t, leading)) samples.insert(sample_of(static_cast<int64_t>(row), leading));
  if (!samples.empty())
    first_ = {order_, fmt::format("first non-finite tensor: {}; sample ids: {}", name, list(samples))};
}

void Search::block(int64_t layer, const BlockState& s, const Tensor& out) {
  const std::pair<const char*, const Tensor&> steps[] = {{"attention norm", s.n1},
                                                         {"queries", s.q},
                                                         {"keys", s.k},
                                                         {"values", s.v},
                                                         {"attention output", s.o},
                                                         {"residual after attention", s.x1},
                                                         {"MLP norm", s.n2},
                                                         {"MLP pre-activation", s.u},
                                                         {"MLP activation", s.g},
                                                         {"block output", out}};
  for (const auto& [name, tensor] : steps) tokens(fmt::format("layer {} {}", layer, name), tensor);
}

// Backward runs from the last layer to the first, so the last bad one in table order went bad first.
void Search::gradients(std::span<const Batch> micro_batches) {
  const ParamStore& store = *env_->params;
  std::set<uint64_t> samples;
  for (const Batch& b : micro_batches) samples.insert(b.sample_ids.begin(), b.sample_ids.end());
  const auto& units = store.table().units();
  for (size_t u = units.size(); u-- > 0;) {
    const std::vector<ParamPart> parts = store.table().parts(units[u], false);
    const Tensor shard = store.shard_of_gradients(units[u]);
    const int64_t origin = store.table().shard_of(units[u], store.table().shard()).offset;
    for (ParamId id = units[u].last; id >= units[u].first; --id) {
      ++order_;
      for (const ParamPart& part : parts) {
        if (first_ || part.id != id) continue;
        const Param& p = store.table()[id];
        if (any_bad(shard.slice(p.offset + part.first - origin, part.count)))
          first_ = {order_, fmt::format("first non-finite tensor: gradient of {} (layer {}); sample ids: {}", p.name,
                                        p.layer, list(samples))};
      }
    }
  }
}

// The first of all ranks' findings, with the rank where there are several.
std::string agree(const std::optional<Finding>& mine, Group& world) {
  const std::vector<std::string> all = world.all_gather(mine ? fmt::format("{:09d} {}", mine->order, mine->text) : "");
  std::string best;
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r].empty() || (!best.empty() && all[r].substr(0, 9) >= best.substr(0, 9))) continue;
    best = all[r] + (all.size() > 1 ? fmt::format("; on rank {}", r) : "");
  }
  if (best.empty())
    return "every tensor of the repeated step is finite: the fault did not happen again (suspect the hardware)";
  return best.substr(10);
}

}  // namespace

std::string Executor::diagnose(std::span<const Batch> micro_batches) {
  ModelEnv env = model_->env();
  env.recompute = Recompute::none;  // keeps every intermediate of the one block under inspection
  Search search(env);
  const auto& units = model_->table().units();
  for (size_t u = 0; u < units.size(); ++u) {
    weights_.acquire(static_cast<int>(u));
    search.weights(units[u].first, units[u].last);
    weights_.release(static_cast<int>(u));
  }
  for (const Batch& b : micro_batches) {
    const Staged staged = stage(env, b, true);
    search.begin(b, staged.view);
    const ArenaTensor loss = env.alloc_f32({staged.view.rows(), 2});
    weights_.acquire(stem_unit());
    ArenaTensor x = Stem(env).forward(staged.view);
    weights_.release(stem_unit());
    search.tokens("embedding output", x);
    for (int64_t l = 0; l < model_->architecture().layers; ++l) {
      const int unit = layer_unit(static_cast<size_t>(l));
      BlockState state;
      weights_.acquire(unit);
      x = Block(env, l).forward(std::move(x), staged.view, state);
      weights_.release(unit);
      search.block(l, state, x);
    }
    open_head(false);
    Head(env).forward(std::move(x), staged.view, loss, {1.0, 0.0, options_.loss_chunk});
    close_head(false);
    search.tokens("loss", loss);
  }
  search.gradients(micro_batches);
  return agree(search.first(), *groups_.world);
}

}  // namespace fp
