#include "inference/probe.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "checkpoint/hdf5.h"
#include "dryrun/setup.h"
#include "exec/executor.h"
#include "io/json_numbers.h"
#include "io/pending.h"

namespace fp {
namespace {

Batch batch_of(const ProbeOptions& o, int64_t vocab) {
  Batch b;
  b.resize(static_cast<int64_t>(o.tokens.size()), static_cast<int64_t>(o.tokens.front().size()));
  const auto legal = [&](int32_t id, int32_t lowest) {
    if (id < lowest || id >= vocab)
      throw ConfigError(fmt::format("token id {}; legal: {} to {} in this model", id, lowest, vocab - 1));
    return id;
  };
  size_t at = 0;
  for (size_t row = 0; row < o.tokens.size(); ++row)
    for (size_t t = 0; t < o.tokens[row].size(); ++t, ++at) {
      const int32_t next = t + 1 < o.tokens[row].size() ? o.tokens[row][t + 1] : kIgnoredTarget;
      b.tokens[at] = legal(o.tokens[row][t], 0);
      b.targets[at] = legal(o.targets.empty() ? next : o.targets[row][t], kIgnoredTarget);
      b.positions[at] = static_cast<int32_t>(t);
    }
  for (size_t row = 0; row < b.sample_ids.size(); ++row) b.sample_ids[row] = row;
  b.reference_logp = o.reference_logp;
  return b;
}

ModelSection without_dropout(ModelSection m) {
  m.dropout_embedding = m.dropout_attention = m.dropout_residual = m.dropout_ffn = 0;
  return m;
}

// The model and its executor, on any device, with the state that the outputs need.
struct Rig {
  Rig(const ModelSection& section, const ProbeOptions& o, Ops& ops, Arena& arena, const Groups& groups)
      : model(section, model_options(o), ops, arena, groups), executor(model, executor_options(o)) {}

  static ModelOptions model_options(const ProbeOptions& o) {
    ModelOptions options;
    options.compute = o.precision;
    options.positions = static_cast<int64_t>(o.tokens.front().size());
    options.training = o.gradients || o.update;
    if (!o.update) options.optimizer.reset();
    return options;
  }
  static ExecutorOptions executor_options(const ProbeOptions& o) {
    ExecutorOptions what;
    if (!o.reference_logp.empty()) what.loss.dpo = o.dpo;
    return what;
  }
  // Runs the batch, backward too where gradients are needed.
  LossSums losses(const ProbeOptions& o, const Batch& batch) {
    const std::span<const Batch> one(&batch, 1);
    return o.gradients || o.update ? executor.accumulate(one) : executor.evaluate(one).front();
  }
  void update(const ProbeOptions& o) {
    OptimizerSection unclipped = o.optimizer;
    unclipped.grad_clip = 0;
    executor.update(unclipped, o.optimizer.lr, 1, 0.0);
  }

  Model model;
  Executor executor;
};

void write_flat(h5::File& file, const std::string& group, const ParamStore& store, const Tensor& flat, Ops& ops) {
  std::vector<float> host;
  for (ParamId id = 0; id < static_cast<ParamId>(store.table().size()); ++id) {
    const Param& p = store.table()[id];
    host.resize(static_cast<size_t>(p.local_elements()));
    ops.copy_out({host.data(), store.part(flat, id)});
    Shape origin = p.shape;
    for (int i = 0; i < origin.rank(); ++i) origin[i] = 0;
    file.create_dataset(group + "/" + p.name, p.shape).write({origin, p.shape}, host.data(), {p.local, origin});
  }
}

std::vector<std::vector<int32_t>> rows_of(const nlohmann::json& j, const std::string& where) {
  std::vector<std::vector<int32_t>> rows;
  if (!j.is_array()) throw DataError(fmt::format("{}: legal: a list of lists of token ids", where));
  for (const nlohmann::json& row : j) {
    const std::string at = fmt::format("{}[{}]", where, rows.size());
    if (!row.is_array()) throw DataError(fmt::format("{}: legal: a list of token ids", at));
    std::vector<int32_t>& ids = rows.emplace_back();
    for (const nlohmann::json& id : row)
      ids.push_back(integer_from<int32_t>(id, fmt::format("{}[{}]", at, ids.size())));
  }
  return rows;
}

}  // namespace

void read_probe_batch(const std::filesystem::path& file, ProbeOptions& o) {
  const nlohmann::json j = read_json(file);
  const std::string where = file.string() + ": ";
  if (!j.is_object() || !j.contains("tokens")) throw DataError(where + "legal: an object with the key tokens");
  o.tokens = rows_of(j["tokens"], where + "tokens");
  if (j.contains("targets")) o.targets = rows_of(j["targets"], where + "targets");
  const size_t length = o.tokens.empty() ? 0 : o.tokens.front().size();
  bool regular = length > 0 && (o.targets.empty() || o.targets.size() == o.tokens.size());
  for (const auto& rows : {o.tokens, o.targets})
    regular &= std::all_of(rows.begin(), rows.end(), [&](const auto& r) { return r.size() == length; });
  if (j.contains("reference_logp")) {
    const nlohmann::json& scores = j["reference_logp"];
    regular &= scores.is_array() && scores.size() == o.tokens.size() && scores.size() % 2 == 0 &&
               std::all_of(scores.begin(), scores.end(), [](const auto& x) { return x.is_number(); });
    if (regular) o.reference_logp = scores.get<std::vector<double>>();
  }
  if (!regular)
    throw DataError(where +
                    "rows of tokens and targets must be as many and as long as each other; reference_logp "
                    "has a number for each of an even number of rows");
}

size_t probe_bytes(const ModelSection& section, const ProbeOptions& o, CountingOps& ops, const Groups& groups) {
  Arena arena;
  Rig rig(section, o, ops, arena, groups);
  const Batch batch = batch_of(o, section.vocab);
  rig.executor.logits(batch);
  rig.losses(o, batch);
  if (o.update) rig.update(o);
  return arena.peak();
}

void probe(const WeightSource& source, const ProbeOptions& o, Ops& ops, CountingOps& counting, const Groups& groups,
           const std::filesystem::path& out) {
  if (out.empty() || (std::filesystem::exists(out) && !std::filesystem::is_regular_file(out)))
    throw ConfigError(fmt::format("--out {}: is not a regular file; legal: the name of a file to write", out.string()));
  const ModelSection section = without_dropout(source.spec().model);
  const Batch batch = batch_of(o, section.vocab);
  if (section.traits().learned_positions && batch.seq_len > section.max_position)
    throw ConfigError(fmt::format("rows of {} tokens; legal: at most {}, where the model's learned positions end",
                                  batch.seq_len, section.max_position));
  const size_t bytes = probe_bytes(section, o, counting, groups);
  ops.reserve_scratch(counting.scratch_bytes());
  Arena arena(ops.allocate(bytes), bytes);
  Rig rig(section, o, ops, arena, groups);
  source.load(rig.model.params(), ops);

  PendingPath pending(out);
  h5::File file = h5::File::create(pending.path());
  const Shape shape{batch.n, batch.seq_len, section.vocab}, origin{0, 0, 0};
  file.create_dataset("logits", shape).write({origin, shape}, rig.executor.logits(batch).data(), {shape, origin});
  const auto loss = static_cast<float>(rig.losses(o, batch).mean());
  file.create_dataset("loss", {1}).write({{0}, {1}}, &loss, {{1}, {0}});
  if (o.gradients) write_flat(file, "gradients", rig.model.params(), rig.model.params().grads(), ops);
  if (o.update) {
    rig.update(o);
    write_flat(file, "updated", rig.model.params(), rig.model.params().master(), ops);
  }
  file.close();
  pending.publish();
}

}  // namespace fp
