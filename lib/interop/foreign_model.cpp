#include "interop/foreign_model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/human_text.h"
#include "config/hf/hf_config.h"
#include "interop/llmc.h"
#include "io/filesystem.h"
#include "io/json.h"
#include "io/readable_file.h"
#include "model/architecture.h"

namespace fp {
namespace {

namespace fs = std::filesystem;

// Returns the files of a folder that hold one part each, ordered by part number.
std::vector<fs::path> part_files(const fs::path& folder, const std::string& pattern) {
  const NamePattern names(pattern);
  std::map<int64_t, fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto numbers = names.match(entry.path().filename().string(), NamePattern::Zeros::allowed);
    if (!numbers) continue;
    const auto [it, first] = found.emplace(numbers->at(std::string(kPartNumber)), entry.path());
    if (!first)
      throw DataError(fmt::format("{}: {} and {} are both part {}", folder.string(), it->second.filename().string(),
                                  entry.path().filename().string(), it->first));
  }
  std::vector<fs::path> files;
  for (const auto& [part, path] : found) {
    if (part != static_cast<int64_t>(files.size()))
      throw DataError(fmt::format("{}: {} exists, but part {} is missing", folder.string(), path.filename().string(),
                                  files.size()));
    files.push_back(path);
  }
  return files;
}

}  // namespace

ForeignModel::ForeignModel(const fs::path& path, const ForeignOptions& options) : path_(path), format_(options.format) {
  std::error_code error;
  if (!path_exists(path)) throw DataError(fmt::format("{}: does not exist", path.string()));
  const bool folder = fs::is_directory(path, error);
  folder_ = folder ? path : path.has_parent_path() ? path.parent_path() : fs::path(".");
  llmc_ = !folder && is_llmc_model(path);
  if (format_.empty()) format_ = llmc_ ? "llmc" : "hf";
  if (llmc_) {
    const LlmcModel model = read_llmc_model(path);
    section_ = model.section;
    declare_parameters(section_, table_);
    mapping_ = choose_mapping(options.mapping, format_, section_.family);
    require_llmc_mapping(mapping_);
    layout_ = Layout(mapping_, section_, table_);
    sets_.push_back(lay_out_llmc_model(path, model, table_, layout_));
    return;
  }
  const fs::path config = options.config.empty() ? folder_ / "config.json" : options.config;
  if (!path_exists(config))
    throw DataError(
        fmt::format("{}: is no checkpoint or run directory, and no config.json describes it as another program's model "
                    "(tried {}); legal: a folder with one, or --config FILE",
                    path.string(), config.string()));
  section_ = model_from_hf_config(read_json_file(config), config.string());
  declare_parameters(section_, table_);
  mapping_ = choose_mapping(options.mapping, format_, section_.family);
  if (!options.mapping.empty()) format_ = fs::path(options.mapping).stem().string();
  layout_ = Layout(mapping_, section_, table_);
  const std::vector<fs::path> files =
      folder && !mapping_.files.empty() ? part_files(path, mapping_.files) : std::vector<fs::path>();
  for (const fs::path& file : files.empty() ? std::vector<fs::path>{path} : files)
    sets_.push_back(TensorFiles::open_safetensors(file));
}

const StoredTensor* ForeignModel::find(const TensorFiles& files, const StoredAs& s, int64_t part) const {
  for (const std::string& name : s.names(part))
    if (const StoredTensor* t = files.find(name)) return t;
  return nullptr;
}

std::vector<StoredPart> ForeignModel::parts_of(const StoredAs& s) const {
  std::vector<StoredPart> parts;
  std::vector<std::string> without;
  if (s.names_parts()) {
    while (const StoredTensor* t = find(sets_.front(), s, static_cast<int64_t>(parts.size())))
      parts.push_back({&sets_.front(), t});
    return parts;
  }
  for (const TensorFiles& files : sets_)
    if (const StoredTensor* t = find(files, s))
      parts.push_back({&files, t});
    else
      without.push_back(files.path(0).filename().string());
  if (s.pattern != PartPattern::unique && !parts.empty() && !without.empty())
    throw DataError(fmt::format("{} is missing in {}", s.name(), fmt::join(without, ", ")));
  return parts;
}

Assembly ForeignModel::assemble(const StoredAs& s) const {
  std::vector<StoredPart> parts = parts_of(s);
  if (parts.empty()) throw DataError(fmt::format("{} {} is missing", s.name(), text_of(s.shape)));
  return {s, std::move(parts)};
}

std::vector<std::string> ForeignModel::problems_of(const ParamTable& table) const {
  const Layout layout(mapping_, section_, table);
  std::vector<std::string> problems;
  std::set<const StoredTensor*> used;
  const auto check = [&](const StoredAs& as, const StoredCopy* copy) {
    try {
      const std::vector<StoredPart> parts = parts_of(as);
      for (const StoredPart& part : parts) used.insert(part.tensor);
      if (parts.empty() && copy != nullptr) return;
      Assembly tensor = assemble(as);
      tensor.require_equal_parts();
      if (copy == nullptr) return;
      const MappingRule& rule = mapping_.rules[copy->rule];
      if (Assembly original = assemble(layout[copy->of]); !equal_values(tensor, original))
        throw DataError(fmt::format("{} differs from {}: this model has no {}, and rules[{}] says same_as {}",
                                    as.name(), layout[copy->of].name(), rule.target, copy->rule, rule.same_as));
    } catch (const DataError& e) {
      problems.emplace_back(e.what());
    }
  };
  for (const ParamId id : layout.in_order_of_rules()) check(layout[id], nullptr);
  for (const StoredCopy& copy : layout.copies()) check(copy.as, &copy);
  for (const TensorFiles& files : sets_)
    for (const auto& [name, t] : files.tensors())
      if (!used.contains(&t) && !layout.ignores(name))
        problems.push_back(fmt::format("{} {} belongs to no parameter of this model", name, text_of(t.shape)));
  return problems;
}

void ForeignModel::require(const ParamTable& table) const {
  const std::vector<std::string> problems = problems_of(table);
  if (!problems.empty())
    throw DataError(fmt::format("{}: its tensors are not those of the model that it describes, under the mapping {}:{}",
                                path_.string(), mapping_.name, indented_lines(problems)));
}

std::optional<Shape> ForeignModel::shape_of(const std::string& param) const {
  const ParamId id = table_.find(param);
  return id < 0 ? std::optional<Shape>() : table_[id].shape;
}

void ForeignModel::read(const std::string& param, const std::string& state, const Box& box, float* data,
                        const h5::Window& window) {
  FP_CHECK(state == kParamState, "another program's files hold no {}", state);
  const ParamId id = table_.find(param);
  FP_CHECK(id >= 0, "{}: no parameter of this model", param);
  assemble(layout_[id]).read(box, data, window);
}

namespace {

// Returns whether a file beside the weights belongs to the model and is carried with it.
bool is_companion(const fs::path& path) {
  static const std::set<std::string> kCompanionNames = {"config.json",
                                                        "generation_config.json",
                                                        "tokenizer.json",
                                                        "tokenizer_config.json",
                                                        "special_tokens_map.json",
                                                        "tokenizer.model",
                                                        "added_tokens.json",
                                                        "vocab.json",
                                                        "merges.txt",
                                                        "chat_template.jinja"};
  const std::string name = path.filename().string();
  return kCompanionNames.contains(name) || path.extension() == ".tiktoken";
}

// Returns whether a file is code of the model, as phi-3-small has; its config.json then contains auto_map.
bool is_model_code(const fs::path& path, const std::string& config) {
  const std::string module = path.stem().string();
  return path.extension() == ".py" && config.find("\"auto_map\"") != std::string::npos && !module.empty() &&
         std::all_of(module.begin(), module.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

}  // namespace

std::string ForeignModel::identity() const {
  std::string text;
  std::vector<std::byte> block(4096);
  for (const TensorFiles& files : sets_) {
    for (const auto& [name, t] : files.tensors())
      text += fmt::format("{} {} {} {}\n", name, t.dtype, t.shape, t.offset);
    for (size_t f = 0; f < files.files(); ++f) {
      const uint64_t bytes = facts_of(files.path(f)).bytes, step = std::max<uint64_t>(bytes / 64, block.size());
      text += fmt::format("{} {}\n", files.path(f).filename().string(), bytes);
      for (uint64_t at = 0; at + block.size() <= bytes; at += step) {
        files.read(f, at, block);
        text += hash_bytes(block.data(), block.size());
      }
    }
  }
  return hash_bytes(text.data(), text.size());
}

std::string ForeignModel::origin() const {
  std::map<std::string, std::string> types;
  std::map<std::string, int> counts;
  for (const ParamId id : layout_.in_order_of_rules()) {
    const std::vector<StoredPart> parts = parts_of(layout_[id]);
    if (parts.empty()) throw DataError(fmt::format("{}: {} is missing", path_.string(), layout_[id].name()));
    ++counts[types[table_[id].name] = parts.front().tensor->dtype];
  }
  const std::string usual =
      std::max_element(counts.begin(), counts.end(), [](auto& a, auto& b) { return a.second < b.second; })->first;
  std::erase_if(types, [&](const auto& t) { return t.second == usual; });
  const nlohmann::ordered_json j = {{"format", format_}, {"dtype", usual}, {"exceptions", types}};
  return j.dump(2) + "\n";
}

std::map<std::string, std::string> ForeignModel::carried() const {
  constexpr uintmax_t kMaxBytes = uintmax_t{256} << 20;
  std::map<std::string, std::string> files{{kOriginName, origin()}};
  if (llmc_) return files;
  const std::string config = fs::is_directory(path_) ? read_file(folder_ / "config.json") : std::string();
  for (const auto& entry : fs::directory_iterator(folder_)) {
    if (!entry.is_regular_file() || (!is_companion(entry.path()) && !is_model_code(entry.path(), config))) continue;
    if (entry.file_size() > kMaxBytes)
      throw DataError(
          fmt::format("{}: {} bytes; legal: at most {}", entry.path().string(), entry.file_size(), kMaxBytes));
    files[entry.path().filename().string()] = read_file(entry.path());
  }
  return files;
}

}  // namespace fp
