#include "sharding/arrange.h"

#include <algorithm>

#include "config/load.h"
#include "config/open_keys.h"
#include "sharding/head_split.h"
#include "sharding/pipeline_plan.h"

namespace fp {
namespace {

std::string advice_for(ArrangedBy command, int64_t ranks) {
  switch (command) {
    case ArrangedBy::plan:
      return fmt::format("plan it with --ranks {}", ranks);
    case ArrangedBy::submit:
      return fmt::format("give nodes and ranks per node that make {}", ranks);
    default:
      return fmt::format("start it with `mpirun -np {}`", ranks);
  }
}

void require_ranks(const ParallelSection& p, int ranks, ArrangedBy command) {
  const int64_t product = p.pipeline.ranks * p.data * p.sequence * p.tensor;
  if (product == ranks) return;
  throw ConfigError(fmt::format(
      "parallel: pipeline {} x data {} x sequence {} x tensor {} = {}, but this run has {} rank{}; {}, or change a "
      "degree (parallel.data: 0 takes the ranks that the others leave; parallel: auto plans them)",
      p.pipeline.ranks, p.data, p.sequence, p.tensor, product, ranks, ranks == 1 ? "" : "s",
      advice_for(command, product)));
}

}  // namespace

void check_heads(const RunSpec& spec) {
  const ParallelSection& p = spec.parallel;
  const ModelSection& m = spec.model;
  const bool whole_groups = m.traits().qkv == QkvLayout::grouped;
  const int64_t most = whole_groups ? m.kv_heads : m.heads;
  if (p.tensor > most)
    throw ConfigError(fmt::format("parallel.tensor = {} is more than model.{} = {}; use 1 to {}", p.tensor,
                                  whole_groups ? "kv_heads" : "heads", most, most));
  int64_t fewest = m.heads;
  for (int r = 0; r < p.tensor; ++r)
    fewest = std::min(fewest, split_heads(m.heads, m.kv_heads, static_cast<int>(p.tensor), r).heads.count);
  if (p.sequence > fewest)
    throw ConfigError(
        fmt::format("parallel.sequence = {} is more than the {} attention heads of a rank (model.heads = {}, "
                    "parallel.tensor = {}); use 1 to {}",
                    p.sequence, fewest, m.heads, p.tensor, fewest));
}

bool divides_nothing(const ParallelSection& p) {
  const auto saves_memory = [](const OpenKey& k) { return k.path.starts_with("memory."); };
  const bool leaves_degrees = std::ranges::any_of(p.open, [&](const std::string& name) {
    return std::ranges::none_of(open_keys(), [&](const OpenKey& k) { return k.name == name && saves_memory(k); });
  });
  return !leaves_degrees && p.pipeline.ranks == 1 && p.data == 1 && p.sequence == 1 && p.tensor == 1;
}

Mesh arrange(RunSpec& spec, int ranks, ArrangedBy command) {
  require_planned(spec, "this command");
  ParallelSection& p = spec.parallel;
  const int64_t others = p.pipeline.ranks * p.sequence * p.tensor;
  if (p.data == 0 && ranks % others != 0)
    throw ConfigError(fmt::format(
        "parallel.data = 0 divides the number of ranks by pipeline {} x sequence {} x tensor {} = {}, but {} ranks are "
        "not a multiple of {}",
        p.pipeline.ranks, p.sequence, p.tensor, others, ranks, others));
  if (p.data == 0) {
    p.data = ranks / others;
    validate(spec);
  }
  require_ranks(p, ranks, command);
  const bool two_way = place_stages(p.pipeline).two_way;
  const Mesh mesh(static_cast<int>(p.pipeline.ranks), static_cast<int>(p.data), static_cast<int>(p.sequence),
                  static_cast<int>(p.tensor), ranks, two_way);
  check_heads(spec);
  return mesh;
}

std::string describe(const ParallelSection& p) {
  std::string text;
  const auto add = [&](const char* name, int64_t degree) {
    if (degree > 1) text += fmt::format("{}{} {}", text.empty() ? "" : " x ", name, degree);
  };
  add("pipeline", p.pipeline.ranks);
  add("data", p.data);
  add("sequence", p.sequence);
  add("tensor", p.tensor);
  if (text.empty()) return "one rank";
  if (p.pipeline.ranks > 1)
    text += fmt::format(", {}{}",
                        p.pipeline.schedule_file.empty() ? name_of(p.pipeline.schedule) : p.pipeline.schedule_file,
                        p.pipeline.w_pass ? " with W pass" : "");
  if (p.megatron_sp) text += ", Megatron sequence parallelism";
  if (p.zero_stage > 0) text += fmt::format(", ZeRO {}", p.zero_stage);
  return text;
}

}  // namespace fp
