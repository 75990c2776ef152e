#include "config/validate.h"

#include <algorithm>

#include "base/error.h"
#include "config/fields/check_values.h"
#include "config/load.h"
#include "config/open_keys.h"
#include "config/run_spec_fields.h"
#include "io/filesystem.h"

namespace fp {

void Checker::require(bool ok, const std::vector<std::string>& keys, const std::string& message) {
  if (ok) return;
  for (const std::string& key : keys)
    if (unusable(key)) return;
  problems_.add(place_of(keys), message);
}

bool Checker::unusable(std::string key) const {
  if (written_.open.count(key) != 0) return true;
  while (written_.failed.count(key) == 0) {
    if (key.find('.') == std::string::npos) return false;
    key.erase(key.rfind('.'));
  }
  return true;
}

Place Checker::place_of(const std::vector<std::string>& keys) const {
  for (const std::string& key : keys)
    if (const auto it = written_.places.find(key); it != written_.places.end()) return it->second;
  for (std::string key = keys.front(); key.find('.') != std::string::npos;) {
    key.erase(key.rfind('.'));
    if (const auto it = written_.places.find(key); it != written_.places.end()) return it->second;
  }
  return {file_};
}

namespace {

void check_data(const RunSpec& s, Checker& check) {
  const DataSection& d = s.data;
  check.require(d.mask_documents || !d.reset_positions, {"data.reset_positions", "data.mask_documents"},
                "data.reset_positions needs data.mask_documents: true");
  check.require(d.sampling == Sampling::documents || d.long_documents == LongDocuments::error,
                {"data.long_documents", "data.sampling"},
                fmt::format("data.long_documents = {} has no effect with data.sampling {}; it is for documents",
                            d.long_documents, d.sampling));
  check.require(d.seq_len <= s.model.max_position, {"data.seq_len", "model.max_position", "model.preset"},
                fmt::format("data.seq_len = {} is over model.max_position = {}; lower the one or raise the other",
                            d.seq_len, s.model.max_position));
  for (size_t i = 0; i < d.train.size(); ++i) {
    const std::string key = fmt::format("data.train[{}]", i);
    check.require(!d.train[i].path.empty(), {key + ".path", key}, key + ".path must name a dataset");
    for (size_t j = 0; j < i; ++j)
      check.require(
          d.train[i].path != d.train[j].path, {key + ".path"},
          fmt::format("{}.path = '{}' is also data.train[{}].path; give the dataset once, with the sum of the weights",
                      key, shown(d.train[i].path), j));
  }
}

void check_schedule(const RunSpec& s, Checker& check) {
  const ScheduleSection &c = s.schedule, unused;
  check.require(c.warmup_steps <= s.train.steps, {"schedule.warmup_steps", "train.steps"},
                fmt::format("schedule.warmup_steps = {} is over train.steps = {}", c.warmup_steps, s.train.steps));
  if (c.kind == LearningRateSchedule::wsd)
    check.require(c.warmup_steps + c.decay_steps <= s.train.steps,
                  {"schedule.decay_steps", "schedule.warmup_steps", "train.steps"},
                  fmt::format("schedule.warmup_steps + decay_steps = {} + {} is over train.steps = {}", c.warmup_steps,
                              c.decay_steps, s.train.steps));
  else
    check.require(c.decay_shape == unused.decay_shape, {"schedule.decay_shape", "schedule.kind"},
                  fmt::format("schedule.decay_shape = {} has no effect with schedule.kind {}; it is for wsd",
                              c.decay_shape, c.kind));
  if (c.kind == LearningRateSchedule::cosine || c.kind == LearningRateSchedule::linear)
    check.require(
        c.decay_steps == 0 || c.decay_steps >= c.warmup_steps, {"schedule.decay_steps", "schedule.warmup_steps"},
        fmt::format("schedule.decay_steps = {} is the step where the decay ends; it must not be before the end of "
                    "the warm-up, {}",
                    c.decay_steps, c.warmup_steps));
  if (c.kind == LearningRateSchedule::constant)
    check.require(c.decay_steps == 0, {"schedule.decay_steps", "schedule.kind"},
                  "schedule.decay_steps has no effect with schedule.kind constant; remove it");
}

// Batches must be multiples of micro-batch x data, the samples that the data-parallel ranks take at a time. `data` 0
// counts as 1 until it is known.
void check_batch(const TrainSection& t, int64_t data, Checker& check) {
  const int64_t unit = t.micro_batch * std::max<int64_t>(data, 1);
  const std::string what =
      data > 1 ? fmt::format("train.micro_batch x parallel.data = {} x {} = {}", t.micro_batch, data, unit)
               : fmt::format("train.micro_batch = {}", t.micro_batch);
  check.require(t.global_batch % unit == 0, {"train.global_batch", "train.micro_batch", "parallel.data"},
                fmt::format("train.global_batch = {} must be a multiple of {}", t.global_batch, what));
  const std::vector<std::string> ramp = {"train.ramp_start_batch", "train.ramp_increment", "train.ramp_samples"};
  const int given = (t.ramp_start_batch > 0) + (t.ramp_increment > 0) + (t.ramp_samples > 0);
  check.require(
      given == 0 || given == 3, ramp,
      fmt::format("a batch-size ramp needs ramp_start_batch, ramp_increment and ramp_samples over 0, not {}, {} and {}",
                  t.ramp_start_batch, t.ramp_increment, t.ramp_samples));
  if (given != 3) return;
  check.require(t.ramp_start_batch < t.global_batch, {ramp[0], "train.global_batch"},
                fmt::format("train.ramp_start_batch = {} must be under train.global_batch = {}", t.ramp_start_batch,
                            t.global_batch));
  check.require(t.ramp_start_batch % unit == 0, {ramp[0], "train.micro_batch", "parallel.data"},
                fmt::format("train.ramp_start_batch = {} must be a multiple of {}", t.ramp_start_batch, what));
  check.require(t.ramp_increment % unit == 0, {ramp[1], "train.micro_batch", "parallel.data"},
                fmt::format("train.ramp_increment = {} must be a multiple of {}", t.ramp_increment, what));
  check.require(t.ramp_start_batch >= t.global_batch || (t.global_batch - t.ramp_start_batch) % t.ramp_increment == 0,
                {ramp[1], ramp[0], "train.global_batch"},
                fmt::format("train.ramp_increment = {} must divide global_batch - ramp_start_batch = {}",
                            t.ramp_increment, t.global_batch - t.ramp_start_batch));
}

void check_optimizer(const OptimizerSection& o, Checker& check) {
  const OptimizerSection unused;
  check.require(o.eps == unused.eps || o.kind != OptimizerKind::lion, {"optimizer.eps", "optimizer.kind"},
                fmt::format("optimizer.eps has no effect with optimizer.kind {}; it is for adamw and muon", o.kind));
  check.require(o.muon == unused.muon || o.kind == OptimizerKind::muon, {"optimizer.muon", "optimizer.kind"},
                fmt::format("optimizer.muon has no effect with optimizer.kind {}; remove it", o.kind));
}

void check_objective(const RunSpec& s, Checker& check) {
  const TrainSection& t = s.train;
  if (t.objective != Objective::dpo) {
    check.require(t.dpo == DpoSpec(), {"train.dpo", "train.objective"},
                  fmt::format("train.dpo has no effect with train.objective {}; remove it", t.objective));
    return;
  }
  check.require(!t.dpo.reference.empty() || !s.model.init_from.empty(), {"train.dpo.reference", "train.objective"},
                "train.objective dpo needs a reference model: name one in train.dpo.reference, or start from one with "
                "model.init_from");
  check.require(t.z_loss == 0, {"train.z_loss", "train.objective"},
                "train.z_loss has no meaning with train.objective dpo; remove it");
  check.require(!s.eval.by_position, {"eval.by_position", "train.objective"},
                "eval.by_position has no meaning with train.objective dpo, whose loss is that of pairs; remove it");
}

void check_precision(const PrecisionSection& p, Checker& check) {
  check.require(
      !p.stochastic_rounding || p.compute == DType::bf16, {"precision.stochastic_rounding", "precision.compute"},
      "precision.stochastic_rounding rounds to bf16 and has no effect with precision.compute fp32; remove it");
}

void check_pipeline(const RunSpec& s, Checker& check) {
  const ParallelSection& parallel = s.parallel;
  const PipelineSection& p = parallel.pipeline;
  const PipelineSection unused;
  const bool file = !p.schedule_file.empty(), breadth_first = s.breadth_first() && !file;
  const bool alone = p.ranks == 1 && !breadth_first;  // a single stage
  const std::string beside = alone  ? "parallel.pipeline.ranks = 1"
                             : file ? "parallel.pipeline.schedule_file"
                                    : fmt::format("parallel.pipeline.schedule {}", p.schedule);
  const auto useless_with = [&](bool used, const std::string& key, const std::string& other) {
    check.require(!used, {"parallel.pipeline." + key, "parallel.pipeline.ranks", "parallel.pipeline.schedule"},
                  fmt::format("parallel.pipeline.{} has no effect with {}; remove it", key, other));
  };
  const auto useless = [&](bool used, const char* key) { useless_with(used, key, beside); };
  const auto is_one_of = [&](std::initializer_list<PipelineSchedule> kinds) {
    return !alone && !file && std::find(kinds.begin(), kinds.end(), p.schedule) != kinds.end();
  };
  useless_with(p.schedule != unused.schedule && (alone || file), "schedule",
               beside + (alone ? " unless it is bfs" : ""));
  useless_with(p.schedule != unused.schedule && p.schedule != PipelineSchedule::bfs && breadth_first, "schedule",
               "memory.offload.weights = host, whose schedule is bfs");
  useless(p.chunks > 0 && (alone || file), "chunks");  // placement_of() checks the value for a schedule
  useless(p.group > 0 && !is_one_of({PipelineSchedule::interleaved, PipelineSchedule::interleaved_zb}), "group");
  useless(p.unit_size > 0 && !is_one_of({PipelineSchedule::zeropp}), "unit_size");
  useless(p.unit_warmup > 0 && !is_one_of({PipelineSchedule::zeropp}), "unit_warmup");
  useless(p.window > 0 && !is_one_of({PipelineSchedule::wave}), "window");
  useless(p.w_pass && (p.ranks == 1 || file), "w_pass");
  check.require(!breadth_first || p.ranks > 1 || p.chunks != 1,
                {"parallel.pipeline.chunks", "parallel.pipeline.schedule", "memory.offload.weights"},
                "parallel.pipeline.chunks = 1 with one pipeline rank is a single stage, which the schedule bfs cannot "
                "reorder; legal: 0 (a stage for each layer, the embedding and the LM head) or 2 to model.layers + 2");
  useless_with(p.memory_cap > 0 && !p.w_pass, "memory_cap", "parallel.pipeline.w_pass false");
  useless(!p.schedule_file.empty() && alone, "schedule_file");
  useless(!p.layers.empty() && alone, "layers");
  useless(!p.recompute.empty() && alone, "recompute");
  const bool resident = p.resident_stages != unused.resident_stages;
  useless(resident && alone, "resident_stages");
  useless_with(resident && !alone && parallel.zero_stage < 3 && s.memory.offload.weights == Offload::none,
               "resident_stages", fmt::format("parallel.zero_stage = {}", parallel.zero_stage));
}

void check_parallel(const RunSpec& s, Checker& check) {
  const ParallelSection& p = s.parallel;
  check_pipeline(s, check);
  check.require(
      !p.megatron_sp || p.tensor > 1, {"parallel.megatron_sp", "parallel.tensor"},
      "parallel.megatron_sp divides tokens among tensor-parallel ranks and has no effect with parallel.tensor "
      "= 1; remove it");
  check.require(s.precision.gradients == DType::f32 || s.precision.compute == DType::bf16,
                {"precision.gradients", "precision.compute"},
                "precision.gradients = bf16 needs precision.compute bf16; with fp32 it must be fp32");
  check.require(!s.precision.stochastic_rounding || (p.tensor == 1 && p.zero_stage == 0),
                {"precision.stochastic_rounding", "parallel.tensor", "parallel.zero_stage"},
                fmt::format("precision.stochastic_rounding needs whole weights on every rank: parallel.tensor = 1 and "
                            "parallel.zero_stage = 0, not {} and {}",
                            p.tensor, p.zero_stage));
}

// Every pass over a chunk is planned and run by itself, so chunks that are tiny cost more than they save.
void check_chunks(const RunSpec& s, Checker& check) {
  constexpr int64_t kMostChunks = 1024;
  const int64_t chunk = s.memory.sequence_chunk_tokens,
                ranks = s.parallel.sequence * (s.parallel.megatron_sp ? s.parallel.tensor : 1),
                least = std::max(ranks, (s.data.seq_len + kMostChunks - 1) / kMostChunks);
  check.require(
      chunk == 0 || chunk >= least,
      {"memory.sequence_chunk_tokens", "data.seq_len", "parallel.sequence", "parallel.tensor", "parallel.megatron_sp"},
      fmt::format("memory.sequence_chunk_tokens = {} is too small for data.seq_len = {}, of which {} ranks have a part "
                  "of each chunk: use 0, or {} or more",
                  chunk, s.data.seq_len, ranks, least));
}

void check_offload(const RunSpec& s, Checker& check) {
  const std::vector<Recompute>& stages = s.parallel.pipeline.recompute;
  const bool full = stages.empty() ? s.memory.recompute == Recompute::full || is_open(s, "recompute")
                                   : std::ranges::find(stages, Recompute::full) != stages.end();
  const OffloadSection& offload = s.memory.offload;
  const OffloadSection unused;
  check.require(
      offload.optimizer == Offload::host || offload.device_share == unused.device_share,
      {"memory.offload.device_share", "memory.offload.optimizer"},
      fmt::format(
          "memory.offload.device_share = {} divides the updates of state in host memory: memory.offload.optimizer "
          "must be host, not none, or the share 1",
          offload.device_share));
  check.require(
      !offload.early_gradients || offload.device_share < 1 || is_open(s, "device_share"),
      {"memory.offload.early_gradients", "memory.offload.device_share"},
      "memory.offload.early_gradients has no effect with memory.offload.device_share = 1: all state is updated on the "
      "device; remove it");
  check.require(offload.optimizer == Offload::host || offload.subgroup == unused.subgroup,
                {"memory.offload.subgroup", "memory.offload.optimizer"},
                "memory.offload.subgroup has no effect with memory.offload.optimizer none; remove it");
  check.require(s.optimizer.kind != OptimizerKind::muon || offload.device_share == 1,
                {"memory.offload.device_share", "optimizer.kind"},
                fmt::format("memory.offload.device_share = {} must be 1 with optimizer.kind muon, which orthogonalizes "
                            "whole matrices on the device",
                            offload.device_share));
  check.require(s.memory.offload.activations == Offload::none || full,
                {"memory.offload.activations", "memory.recompute", "parallel.pipeline.recompute"},
                fmt::format("memory.offload.activations = host moves the inputs of layers that are recomputed: "
                            "memory.recompute must be full, not {}",
                            name_of(s.memory.recompute)));
}

void check_offloaded_weights(const RunSpec& s, Checker& check) {
  const OffloadSection& offload = s.memory.offload;
  if (offload.weights == Offload::none) return;
  const std::string key = "memory.offload.weights", written = "memory.offload.weights = host";
  check.require(offload.optimizer == Offload::host, {key, "memory.offload.optimizer"},
                fmt::format("{} needs memory.offload.optimizer host, not {}: the update writes the weights where the "
                            "state is",
                            written, name_of(offload.optimizer)));
  check.require(
      s.parallel.pipeline.ranks == 1 && s.parallel.pipeline.schedule_file.empty(),
      {key, "parallel.pipeline.ranks", "parallel.pipeline.schedule_file"},
      fmt::format("{} needs parallel.pipeline.ranks = 1 and no schedule_file, not {} ranks: with several, each "
                  "keeps the weights of its stages",
                  written, s.parallel.pipeline.ranks));
  check.require(s.optimizer.kind != OptimizerKind::muon, {key, "optimizer.kind"},
                fmt::format("{} needs an optimizer.kind that updates each element by itself, adamw or lion, not {}",
                            written, s.optimizer.kind));
  check.require(
      !offload.early_gradients, {"memory.offload.early_gradients", key},
      fmt::format("memory.offload.early_gradients has no effect with {}: all gradients leave early; remove it",
                  written));
  check.require(
      s.eval.sample_prompt.empty(), {"eval.sample_prompt", key},
      fmt::format("eval.sample_prompt needs the weights on the device, not {}; `fptrain generate` writes text "
                  "from any checkpoint of this run",
                  written));
}

void check_checkpoint(const CheckpointSection& c, Checker& check) {
  const bool saved = c.keep_every == 0 || (c.every > 0 && c.keep_every % c.every == 0);
  check.require(
      saved, {"checkpoint.keep_every", "checkpoint.every"},
      fmt::format("checkpoint.keep_every = {} must be a multiple of checkpoint.every = {}: only those steps are saved",
                  c.keep_every, c.every));
  check.require(c.node_local.empty() || c.asynchronous, {"checkpoint.node_local", "checkpoint.asynchronous"},
                "checkpoint.node_local is for saves in the background: checkpoint.asynchronous must be true");
  check.require(
      c.node_local.empty() || c.node_local.front() == '/', {"checkpoint.node_local"},
      fmt::format("checkpoint.node_local = {} must be an absolute path: it is the same on every node", c.node_local));
}

// The model continues the prompt on a rank by itself, which needs all weights.
void check_sample_text(const RunSpec& s, Checker& check) {
  const ParallelSection& p = s.parallel;
  const EvalSection unused;
  if (s.eval.sample_prompt.empty()) {
    for (const auto& [key, used] :
         {std::pair{"eval.sample_tokens", s.eval.sample_tokens != unused.sample_tokens},
          std::pair{"eval.sample_temperature", s.eval.sample_temperature != unused.sample_temperature}})
      check.require(!used, {key, "eval.sample_prompt"},
                    fmt::format("{} has no effect without eval.sample_prompt; remove it", key));
    return;
  }
  check.require(
      p.tensor == 1 && p.sequence == 1 && p.pipeline.ranks == 1 && p.zero_stage <= 2,
      {"eval.sample_prompt", "parallel.tensor", "parallel.sequence", "parallel.pipeline.ranks", "parallel.zero_stage"},
      fmt::format("eval.sample_prompt needs the whole model on each rank: parallel.tensor, sequence and "
                  "pipeline.ranks = 1 and zero_stage at most 2, not {}, {}, {} and {}; `fptrain generate` "
                  "writes text from any checkpoint of this run",
                  p.tensor, p.sequence, p.pipeline.ranks, p.zero_stage));
  check.require(
      s.eval.sample_tokens < s.data.seq_len, {"eval.sample_tokens", "data.seq_len", "eval.sample_prompt"},
      fmt::format("eval.sample_tokens = {} leaves no space for eval.sample_prompt in data.seq_len = {} tokens",
                  s.eval.sample_tokens, s.data.seq_len));
}

}  // namespace

void check_run_length(const RunSpec& spec, Checker& check) {
  const TrainSection& t = spec.train;
  check.require(t.tokens == 0 || t.epochs == 0, {"train.tokens", "train.epochs"},
                fmt::format("train.tokens = {} and train.epochs = {} both say how long the run is; remove one",
                            t.tokens, t.epochs));
  if (!check.written("train.steps")) return;
  check.require(t.tokens == 0, {"train.tokens"},
                fmt::format("train.tokens = {} and train.steps = {} both say how long the run is; remove one", t.tokens,
                            t.steps));
  check.require(t.epochs == 0, {"train.epochs"},
                fmt::format("train.epochs = {} and train.steps = {} both say how long the run is; remove one", t.epochs,
                            t.steps));
}

void check_run(const RunSpec& spec, Checker& check) {
  check.require(!spec.run.name.empty(), {"run.name"}, "run.name must not be empty");
  const std::filesystem::path folder = spec.run.name;
  check.require(folder.is_relative() && std::ranges::find(folder, "..") == folder.end() &&
                    std::ranges::none_of(spec.run.name, [](unsigned char c) { return c < ' '; }),
                {"run.name"}, "run.name must name a folder in runs/, without '..' and control characters");
  check_data(spec, check);
  check_optimizer(spec.optimizer, check);
  check_schedule(spec, check);
  check_batch(spec.train, spec.parallel.data, check);
  check_parallel(spec, check);
  check_communication(spec, check);
  check_objective(spec, check);
  check_precision(spec.precision, check);
  check_chunks(spec, check);
  check_offload(spec, check);
  check_offloaded_weights(spec, check);
  check_checkpoint(spec.checkpoint, check);
  check_sample_text(spec, check);
}

void check_data_paths(const RunSpec& spec, Checker& check) {
  const auto dataset = [&](const std::string& key, const std::string& path) {
    try {
      const bool there = path.empty() || !matching_files(path).empty() || !matching_files(path + ".idx").empty();
      check.require(
          there, {key},
          fmt::format("{}: there is no dataset '{}'; make one with `fptrain data prepare`", key, shown(path)));
    } catch (const DataError& e) {
      check.require(false, {key}, fmt::format("{}: {}", key, shown(e.what())));
    }
  };
  for (size_t i = 0; i < spec.data.train.size(); ++i)
    dataset(fmt::format("data.train[{}].path", i), spec.data.train[i].path);
  dataset("data.validation", spec.data.validation);
}

void validate(const RunSpec& spec) {
  RunSpec checked = spec, defaults;
  Problems problems;
  Written written;
  for (const OpenKey& key : open_keys())
    if (is_open(spec, key.name)) written.open.emplace(key.path);
  check_values(fields_of(checked), fields_of(defaults), {}, written, problems);
  Checker check(written, "", problems);
  check_before_resolve(checked, check);
  check_run_length(checked, check);
  resolve(checked);
  check_model(checked.model, check);
  check_run(checked, check);
  problems.throw_if_any();
}

void validate_for_training(const RunSpec& spec) {
  if (spec.data.train.empty())
    throw ConfigError(
        "data.train is empty: training needs at least one dataset, as `fptrain data prepare` makes them: "
        "data: {train: [{path: data/bible}]}");
}

}  // namespace fp
