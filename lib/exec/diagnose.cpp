// Finding where a step went wrong: the same forward pass again, every intermediate result searched on the device.
#include <optional>
#include <set>

#include "exec/staged.h"

namespace fp {
namespace {

struct Finding {
  std::string tensor;
  std::set<uint64_t> samples;
};

// Those of the `rows` rows of t that hold a value that is not finite.
std::vector<size_t> nonfinite_rows(const ModelEnv& e, const Tensor& t, int64_t rows) {
  const ArenaTensor first = e.arena->alloc(DType::i32, {rows});
  e.ops->find_nonfinite(first, t.reshaped({rows, t.elements() / rows}));
  std::vector<int32_t> columns(static_cast<size_t>(rows));
  e.ops->copy_out(columns.data(), first);
  std::vector<size_t> bad;
  for (size_t i = 0; i < columns.size(); ++i)
    if (columns[i] >= 0) bad.push_back(i);
  return bad;
}

// Samples with a non-finite value in t, whose first dimensions are the batch's tokens.
std::optional<Finding> inspect(const ModelEnv& e, const Batch& b, const std::string& name, const Tensor& t) {
  Finding f{name, {}};
  for (const size_t token : nonfinite_rows(e, t, b.n * b.seq_len))
    f.samples.insert(b.sample_ids[token / static_cast<size_t>(b.seq_len)]);
  if (f.samples.empty()) return std::nullopt;
  return f;
}

std::optional<Finding> inspect_block(const ModelEnv& e, const Batch& b, int64_t layer, const BlockState& s,
                                     const Tensor& out) {
  const std::string where = fmt::format("layer {} ", layer);
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
  for (const auto& [name, tensor] : steps)
    if (auto f = inspect(e, b, where + name, tensor)) return f;
  return std::nullopt;
}

std::string describe(const Finding& f) {
  std::string samples;
  size_t shown = 0;
  for (const uint64_t id : f.samples) {
    if (shown++ == 8) break;
    samples += (samples.empty() ? "" : ", ") + std::to_string(id);
  }
  if (f.samples.size() > 8) samples += fmt::format(" and {} more", f.samples.size() - 8);
  return fmt::format("first non-finite tensor: {}; sample ids: {}", f.tensor, samples);
}

}  // namespace

std::string Executor::diagnose(std::span<const Batch> micro_batches) {
  ModelEnv env = model_->env();
  env.recompute = Recompute::none;  // keeps every intermediate of the one block under inspection
  const ParamTable& table = model_->table();
  const auto finite = [&](const Tensor& t) { return nonfinite_rows(env, t, t.rows()).empty(); };
  for (const Param& p : table)
    if (!finite(env.params->weight(table.find(p.name))))
      return fmt::format("first non-finite tensor: parameter {} (layer {})", p.name, p.layer);

  for (const Batch& b : micro_batches) {
    const Staged staged = stage(b, true);
    const ArenaTensor loss = env.alloc_f32({staged.view.rows(), 2});
    ArenaTensor x = Stem(env).forward(staged.view);
    if (auto f = inspect(env, b, "embedding output", x)) return describe(*f);
    for (int64_t l = 0; l < model_->architecture().layers; ++l) {
      BlockState state;
      x = Block(env, l).forward(std::move(x), staged.view, state);
      if (auto f = inspect_block(env, b, l, state, x)) return describe(*f);
    }
    Head(env).forward(std::move(x), staged.view, loss, {1.0, 0.0, options_.loss_chunk});
    if (auto f = inspect(env, b, "loss", loss)) return describe(*f);
  }
  // Backward runs from the last layer to the first, so the last bad one in table order went bad first.
  Finding f;
  for (const Param& p : table)
    if (!finite(env.params->grad(table.find(p.name))))
      f.tensor = fmt::format("gradient of {} (layer {})", p.name, p.layer);
  for (const Batch& b : micro_batches) f.samples.insert(b.sample_ids.begin(), b.sample_ids.end());
  if (!f.tensor.empty()) return describe(f);
  return "every tensor of the repeated step is finite: the fault did not happen again (suspect the hardware)";
}

}  // namespace fp
