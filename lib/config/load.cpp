#include "config/load.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/error.h"
#include "config/fields/decode.h"
#include "config/hf/hf_config.h"
#include "config/open_keys.h"
#include "config/overrides.h"
#include "config/preset.h"
#include "config/run_length.h"
#include "config/run_spec_fields.h"
#include "config/validate.h"
#include "config/yaml/document.h"

namespace fp {

namespace fs = std::filesystem;

namespace {

constexpr DocumentKind kRunSpec = {"run spec", "has sections such as model, data and train"};

std::string read_text(const fs::path& path) { return read_document(path, kRunSpec); }

YamlNode parse_root(std::string_view text, const std::string& name) {
  return parse_document(text, name, kRunSpec, name.empty() ? Lines::hidden : Lines::shown);
}

// Returns a key of the model section if it is non-empty text; the decoder reports anything else.
const YamlNode* model_text(const YamlNode& root, std::string_view key) {
  const YamlEntry* model = root.find("model");
  const YamlEntry* entry = model != nullptr ? model->value.find(key) : nullptr;
  if (entry == nullptr || entry->value.kind != YamlNode::Kind::scalar || entry->value.text.empty()) return nullptr;
  return &entry->value;
}

const YamlNode* preset_node(const YamlNode& root) { return model_text(root, "preset"); }

// Returns whether the section gives the sizes of a model by itself, as a resolved spec does.
bool describes_model(const YamlNode& root) {
  return std::ranges::all_of(std::array{"family", "layers", "hidden", "heads"},
                             [&](const char* key) { return model_text(root, key) != nullptr; });
}

// Returns the tree of a preset's file: for config.yaml of a run and a Hugging Face config.json, only its model section.
YamlNode read_preset(const fs::path& file) {
  const std::string text = read_text(file);
  YamlNode root;
  if (file.filename() == "config.json") {
    RunSpec spec;
    spec.model = model_from_hf_config(text, file.string());
    root = parse_document(dump(spec), file.string(), kRunSpec, Lines::hidden);
  } else {
    root = parse_root(text, file.string());
    if (file.filename() != "config.yaml") return root;
  }
  std::erase_if(root.entries, [](const YamlEntry& e) { return e.key != "model"; });
  for (YamlEntry& e : root.entries)
    std::erase_if(e.value.entries, [](const YamlEntry& k) { return k.key == "init_from" || k.key == "init_changes"; });
  return root;
}

// Returns the result of `find`, which may be an empty path. If `find` throws, adds a problem and returns nullopt.
template <class Find>
std::optional<fs::path> seen(const YamlNode& node, const char* key, Problems& problems, const Find& find) {
  try {
    return find();
  } catch (const ConfigError& e) {
    problems.add(node.place, fmt::format("{}: {}", key, e.what()));
    return std::nullopt;
  }
}

// Returns the tree of a preset; adds a problem and returns an empty map if the preset is unknown.
YamlNode preset_tree(const YamlNode& node, const fs::path& base, Problems& problems) {
  const auto file = seen(node, "model.preset", problems, [&] { return find_preset(node.text, base); });
  if (!file) return YamlNode(YamlNode::Kind::map, node.place);
  if (file->empty()) {
    const std::vector<std::string> names = preset_names();
    const std::vector<std::string_view> views(names.begin(), names.end());
    std::string all;
    for (const auto& n : names) all += (all.empty() ? "" : ", ") + n;
    const auto near = nearest(node.text, views);
    problems.add(node.place,
                 fmt::format("model.preset: '{}' is not known{}; legal: the path of a preset or of a folder with a "
                             "model (config.yaml or config.json in it), or one of {}",
                             shown(node.text), near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near), all));
    return YamlNode(YamlNode::Kind::map, node.place);
  }
  YamlNode preset = read_preset(*file);
  for (const YamlEntry& e : preset.entries)
    if (e.key != "model")
      problems.add(e.place, fmt::format("a model preset has only the section model, not '{}'", shown(e.key)));
  if (const YamlNode* nested = preset_node(preset))
    problems.add(nested->place, "a preset cannot be based on another preset");
  return preset;
}

// As preset_tree, for the model that a run starts from; the path is the one by which the weights will be opened. An
// empty map where nothing describes the model: a spec that does so itself may be read without its weights.
YamlNode init_tree(const YamlNode& node, bool described, Problems& problems) {
  const auto file = seen(node, "model.init_from", problems, [&] { return model_description_at(node.text); });
  if (file && !file->empty()) return read_preset(*file);
  std::error_code ignored;
  if (file && !described)
    problems.add(
        node.place,
        fmt::format("model.init_from: '{}' {}; legal: a checkpoint, run directory or Hugging Face folder, or "
                    "any weights together with model.preset",
                    shown(node.text), fs::exists(node.text, ignored) ? "does not describe a model" : "does not exist"));
  return YamlNode(YamlNode::Kind::map, node.place);
}

std::string preset_label(const std::string& preset) {
  const std::string name = fs::path(preset).filename().string();
  return name.ends_with(".yaml") ? name.substr(0, name.size() - 5) : name;
}

bool is_empty_auto_list(const YamlNode& root) {
  const YamlEntry* const parallel = root.find("parallel");
  const YamlEntry* const list = parallel != nullptr ? parallel->value.find("auto") : nullptr;
  return list != nullptr && list->value.kind == YamlNode::Kind::list && list->value.items.empty();
}

// `memory: auto` also adds `memory` to a list parallel.auto that a set gives, unless that leaves nothing open.
void apply_sets(YamlNode& root, const std::vector<std::string>& sets, Problems& problems) {
  std::optional<Place> memory;
  const auto expand = [&] {
    if (const auto all = take_auto(root, "parallel")) add_to_auto(root, "all", *all);
    if (const auto place = take_auto(root, "memory")) memory = place;
  };
  expand();
  for (const std::string& set : sets) {
    apply_set(root, set, problems);
    if (set.starts_with("parallel.auto=") && is_empty_auto_list(root)) memory.reset();
    expand();
  }
  if (memory) add_to_auto(root, "memory", *memory);
}

// Returns the whole tree: the preset, or else the model that init_from names, overridden by the file, overridden by the
// sets, which may also choose both.
YamlNode assemble(YamlNode root, const std::vector<std::string>& sets, const fs::path& base, Problems& problems) {
  YamlNode chooser = root;
  Problems reported_below;
  apply_sets(chooser, sets, reported_below);
  if (const YamlNode* preset = preset_node(chooser))
    root = merged(preset_tree(*preset, base, problems), root);
  else if (const YamlNode* init = model_text(chooser, "init_from"))
    root = merged(init_tree(*init, describes_model(chooser), problems), root);
  apply_sets(root, sets, problems);
  return root;
}

// Adds a problem if the spec of a checkpoint, which states all of its model, is based on another file.
void require_no_preset(const YamlNode& root, Problems& problems) {
  if (const YamlNode* preset = preset_node(root))
    problems.add(preset->place, "model.preset: the spec of a checkpoint states its whole model and has no preset");
}

// `base`: where relative paths start. If it is null, no other file is read.
RunSpec read(std::string_view text, const std::string& name, const std::vector<std::string>& sets, DataFolders folders,
             const fs::path* base) {
  Problems problems;
  YamlNode root = parse_root(text, name);
  if (root.kind == YamlNode::Kind::map && base != nullptr) root = assemble(std::move(root), sets, *base, problems);
  if (root.kind == YamlNode::Kind::map && base == nullptr) require_no_preset(root, problems);
  const bool whole = problems.empty();
  RunSpec spec;
  Written written;
  decode(root, fields_of(spec), written, problems);
  resolve_open_keys(spec, written);
  if (spec.train.epochs > 0) written.open.emplace("train.steps");  // known once the data are
  try {
    if (const fs::path file = base != nullptr ? find_cluster(spec.parallel.cluster, *base) : fs::path(); !file.empty())
      spec.parallel.cluster = file.string();
  } catch (const ConfigError&) {  // reported by the commands that need the cluster
  }
  Checker check(written, name, problems);
  if (folders == DataFolders::must_exist) check_data_paths(spec, check);
  if (whole) {  // without its preset or a set, a spec may seem to contradict itself
    check_before_resolve(spec, check);
    check_run_length(spec, check);
    resolve(spec);
    check_model(spec.model, check);
    check_run(spec, check);
  }
  problems.throw_if_any();
  return spec;
}

}  // namespace

std::string read_run_spec(const fs::path& file) { return read_text(file); }

RunSpec load_run_spec(std::string_view text, const fs::path& file, const std::vector<std::string>& sets,
                      DataFolders folders) {
  const fs::path folder = file.parent_path();
  return read(text, file.string(), sets, folders, &folder);
}

RunSpec load_run_spec(const fs::path& file, const std::vector<std::string>& sets, DataFolders folders) {
  return load_run_spec(read_run_spec(file), file, sets, folders);
}

RunSpec parse_run_spec(std::string_view text, std::string_view name, const std::vector<std::string>& sets,
                       DataFolders folders) {
  const fs::path here;
  return read(text, std::string(name), sets, folders, &here);
}

RunSpec parse_stored_spec(std::string_view text, std::string_view name) {
  return read(text, std::string(name), {}, DataFolders::may_be_missing, nullptr);
}

ModelSection load_preset(const std::string& name) {
  Problems problems;
  const Place place{"preset " + name};
  const YamlNode node = preset_tree(YamlNode(YamlNode::Kind::scalar, place, name), fs::path(), problems);
  RunSpec spec;
  Written written;
  decode(node, fields_of(spec), written, problems);
  problems.throw_if_any();
  spec.model.preset = name;
  resolve(spec);
  return spec.model;
}

void resolve(RunSpec& spec) {
  ModelSection& m = spec.model;
  if (m.name.empty()) m.name = m.preset.empty() ? std::string(name_of(m.family)) : preset_label(m.preset);
  m.preset.clear();
  if (m.kv_heads == 0) m.kv_heads = m.heads;
  if (m.head_dim == 0 && m.heads > 0 && m.hidden % m.heads == 0) m.head_dim = m.hidden / m.heads;
  if (m.ffn == 0 && !m.traits().gated()) m.ffn = 4 * m.hidden;
  if (m.traits().learned_positions && m.rope.kind == RopeKind::standard) m.rope.kind = RopeKind::none;
  if (spec.run.directory.empty()) spec.run.directory = "runs/" + spec.run.name;
  if (spec.train.tokens > 0) spec.train.steps = steps_of_tokens(spec, std::exchange(spec.train.tokens, 0));
}

}  // namespace fp
