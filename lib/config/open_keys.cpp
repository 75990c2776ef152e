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
    OpenKey{"offload.activations", "memory.offload.activations"},
    OpenKey{"mlp_tile_tokens", "memory.mlp_tile_tokens"},
    OpenKey{"sequence_chunk_tokens", "memory.sequence_chunk_tokens"},
    OpenKey{"offload.optimizer", "memory.offload.optimizer"},
    OpenKey{"offload.weights", "memory.offload.weights"},
    OpenKey{"device_share", "memory.offload.device_share"},
    OpenKey{"subgroup", "memory.offload.subgroup"},
    OpenKey{"node_weights", "communication.node_weights"},
    OpenKey{"gradient_bits", "communication.gradient_bits"},
};

bool stands_for(std::string_view listed, const OpenKey& key) {
  return listed == "all" || listed == key.name || (listed == "pipeline" && key.name.starts_with("pipeline.")) ||
         (listed == "memory" && key.path.starts_with("memory."));
}

bool is_auto(const YamlEntry* section) {
  return section != nullptr && section->value.kind == YamlNode::Kind::scalar && section->value.text == "auto";
}

// Whether other keys leave only one value for this one.
bool is_meaningless(const RunSpec& spec, std::string_view name) {
  const PipelineSection& p = spec.parallel.pipeline;
  if (name == "recompute") return !p.recompute.empty();
  const bool stays = spec.memory.offload.optimizer == Offload::none && !is_open(spec, "offload.optimizer");
  if (name == "subgroup") return stays;
  if (name == "offload.weights")
    return stays || spec.optimizer.kind == OptimizerKind::muon || spec.memory.offload.early_gradients ||
           !spec.eval.sample_prompt.empty() || !p.schedule_file.empty();
  if (name == "gradient_bits") return spec.communication.max_gradient_error == 0;
  if (name == "device_share") return stays || spec.optimizer.kind == OptimizerKind::muon;
  return !p.schedule_file.empty() && name.starts_with("pipeline.") && name != "pipeline.ranks";
}

}  // namespace

std::span<const OpenKey> open_keys() { return kOpenKeys; }

bool is_open(const RunSpec& spec, std::string_view name) {
  const auto& open = spec.parallel.open;
  return std::find(open.begin(), open.end(), name) != open.end();
}

std::optional<Place> take_auto(YamlNode& root, std::string_view section) {
  YamlEntry* const entry = root.find(section);
  if (!is_auto(entry)) return std::nullopt;
  const Place place = entry->value.place;
  entry->value = YamlNode(YamlNode::Kind::map, place);
  return place;
}

void add_to_auto(YamlNode& root, const std::string& name, const Place& place) {
  if (root.find("parallel") == nullptr)
    root.entries.push_back({"parallel", place, YamlNode(YamlNode::Kind::map, place)});
  YamlNode& map = root.find("parallel")->value;
  if (map.kind != YamlNode::Kind::map) return;  // refused where the section is read
  if (map.find("auto") == nullptr) map.entries.push_back({"auto", place, YamlNode(YamlNode::Kind::list, place)});
  YamlNode& list = map.find("auto")->value;
  if (list.kind == YamlNode::Kind::list) list.items.emplace_back(YamlNode::Kind::scalar, place, name);
}

void resolve_open_keys(RunSpec& spec, Written& written) {
  const bool closed = written.has("parallel.auto") && spec.parallel.open.empty();
  std::vector<std::string> listed = std::move(spec.parallel.open);
  if (spec.memory.has_budget() && !closed) listed.emplace_back("memory");
  spec.parallel.open.clear();
  for (const OpenKey& key : kOpenKeys) {
    const auto names_it = [&](const std::string& l) { return stands_for(l, key); };
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
