#include "config/open_keys.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace fp {
namespace {

constexpr std::array kOpenKeys = {
    OpenKey{"tensor", "parallel.tensor"},
    OpenKey{"sequence", "parallel.sequence"},
    OpenKey{"pipeline.ranks", "parallel.pipeline.ranks"},
    OpenKey{"pipeline.schedule", "parallel.pipeline.schedule"},
    OpenKey{"pipeline.chunks", "parallel.pipeline.chunks"},
    OpenKey{"pipeline.w_pass", "parallel.pipeline.w_pass"},
    OpenKey{"data", "parallel.data"},
    OpenKey{"zero_stage", "parallel.zero_stage"},
    OpenKey{"megatron_sp", "parallel.megatron_sp"},
    OpenKey{"micro_batch", "train.micro_batch"},
    OpenKey{"recompute", "memory.recompute"},
    OpenKey{"device_share", "memory.offload.device_share"},
};

bool stands_for(std::string_view listed, std::string_view name) {
  return listed == "all" || listed == name || (listed == "pipeline" && name.starts_with("pipeline."));
}

// True if another key already determines the value of this one.
bool is_meaningless(const RunSpec& spec, std::string_view name) {
  const PipelineSection& p = spec.parallel.pipeline;
  if (name == "recompute") return !p.recompute.empty();
  if (name == "device_share")
    return spec.memory.offload.optimizer == Offload::none || spec.optimizer.kind == OptimizerKind::muon;
  return !p.schedule_file.empty() && name.starts_with("pipeline.") && name != "pipeline.ranks";
}

}  // namespace

std::span<const OpenKey> open_keys() { return kOpenKeys; }

bool is_open(const RunSpec& spec, std::string_view name) {
  const auto& open = spec.parallel.open;
  return std::find(open.begin(), open.end(), name) != open.end();
}

void expand_auto(YamlNode& root) {
  YamlEntry* parallel = root.find("parallel");
  if (parallel == nullptr) return;
  YamlNode& node = parallel->value;
  if (node.kind != YamlNode::Kind::scalar || node.text != "auto") return;
  YamlNode all(YamlNode::Kind::list, node.place);
  all.items.emplace_back(YamlNode::Kind::scalar, node.place, "all");
  YamlNode map(YamlNode::Kind::map, node.place);
  map.entries.push_back({"auto", node.place, std::move(all)});
  node = std::move(map);
}

void resolve_open_keys(RunSpec& spec, Written& written) {
  const std::vector<std::string> listed = std::move(spec.parallel.open);
  spec.parallel.open.clear();
  for (const OpenKey& key : kOpenKeys) {
    const auto names_it = [&](const std::string& l) { return stands_for(l, key.name); };
    if (std::none_of(listed.begin(), listed.end(), names_it)) continue;
    if (written.has(std::string(key.path)) || is_meaningless(spec, key.name)) continue;
    spec.parallel.open.emplace_back(key.name);
    written.open.emplace(key.path);
  }
}

void require_planned(const RunSpec& spec, const std::string& who, std::span<const std::string_view> names) {
  std::string open;
  for (const OpenKey& key : kOpenKeys)
    if (is_open(spec, key.name) && (names.empty() || std::find(names.begin(), names.end(), key.name) != names.end()))
      open += fmt::format("{}{}", open.empty() ? "" : ", ", key.path);
  if (!open.empty())
    throw ConfigError(fmt::format(
        "parallel.auto leaves {} to the planner, but {} does not plan: write the values that `fptrain plan` chooses",
        open, who));
}

}  // namespace fp
