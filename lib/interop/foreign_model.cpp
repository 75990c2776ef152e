#include "interop/foreign_model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/filesystem.h"
#include "config/hf_config.h"
#include "interop/llmc.h"
#include "model/architecture.h"

namespace fp {
namespace {

namespace fs = std::filesystem;

std::string text_of(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

// Reads stored elements as fp32.
class ElementReader {
 public:
  ElementReader(const TensorFiles& files, const StoredTensor& t)
      : files_(files), t_(t), type_(element_type(t.dtype).value()) {}
  // `out.size()` elements from the index'th on.
  void read(int64_t index, std::span<float> out) {
    raw_.resize(out.size() * size_of(type_));
    files_.read(t_.file, t_.offset + static_cast<uint64_t>(index) * size_of(type_), raw_);
    to_floats(type_, raw_, out);
  }

 private:
  const TensorFiles& files_;
  const StoredTensor& t_;
  ElementType type_;
  std::vector<std::byte> raw_;
};

}  // namespace

ForeignModel::ForeignModel(const fs::path& path, const ForeignOptions& options) : path_(path), format_(options.format) {
  std::error_code error;
  if (!fs::exists(path, error)) throw DataError(fmt::format("{}: does not exist", path.string()));
  folder_ = fs::is_directory(path, error) ? path : path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (!fs::is_directory(path, error) && is_llmc_model(path)) {
    format_ = WeightFormat::llmc;
    section_ = open_llmc_model(path, files_);
  } else {
    const fs::path config = options.config.empty() ? folder_ / "config.json" : options.config;
    if (!fs::is_regular_file(config, error))
      throw DataError(
          fmt::format("{}: there is no config.json to say what model this is (looked at {}); legal: a "
                      "folder with one, or --config FILE",
                      path.string(), config.string()));
    section_ = model_from_hf_config(read_file(config), config.string());
    files_ = TensorFiles::open_safetensors(path);
  }
  if (format_ == WeightFormat::meta && section_.family != Family::llama)
    throw DataError(fmt::format("{}: --format meta is for Llama models only", path.string()));
  declare_parameters(section_, table_);
}

// GPT-2 files come with and without the prefix of the enclosing module.
const StoredTensor* ForeignModel::find(const StoredAs& s) const {
  const StoredTensor* t = files_.find(s.name);
  constexpr std::string_view kPrefix = "transformer.";
  return t == nullptr && s.name.starts_with(kPrefix) ? files_.find(s.name.substr(kPrefix.size())) : t;
}

ForeignModel::Place ForeignModel::place_of(const std::string& param) const {
  const ParamId id = table_.find(param);
  FP_CHECK(id >= 0, "{}: no parameter of this model", param);
  StoredAs as = stored_as(format_, section_, table_[id]);
  const StoredTensor* t = find(as);
  if (t == nullptr) throw DataError(fmt::format("{}: {} is missing", path_.string(), as.name));
  return {t, std::move(as)};
}

std::vector<std::string> ForeignModel::problems_of(const ParamTable& table) const {
  std::vector<std::string> problems;
  std::set<const StoredTensor*> used;
  for (const Param& p : table) {
    const StoredAs as = stored_as(format_, section_, p);
    const StoredTensor* t = find(as);
    if (t == nullptr) {
      problems.push_back(fmt::format("{} {} is missing", as.name, text_of(as.shape)));
      continue;
    }
    used.insert(t);
    if (t->shape != as.shape)
      problems.push_back(fmt::format("{} is {}, the model needs {}", as.name, text_of(t->shape), text_of(as.shape)));
    else if (!element_type(t->dtype))
      problems.push_back(fmt::format("{} has dtype {}; legal: F32, F16, BF16", as.name, t->dtype));
  }
  for (const auto& [name, t] : files_.tensors())
    if (!used.contains(&t) && !is_buffer(name) && !(section_.tied_embeddings && name == head_name()))
      problems.push_back(fmt::format("{} {} belongs to no parameter of this model", name, text_of(t.shape)));
  return problems;
}

void ForeignModel::require(const ParamTable& table) const {
  const std::vector<std::string> problems = problems_of(table);
  if (!problems.empty())
    throw DataError(fmt::format("{}: does not hold the model that it describes:\n  {}", path_.string(),
                                fmt::join(problems, "\n  ")));
  if (section_.tied_embeddings && files_.find(head_name()) != nullptr) check_tied_copy();
}

std::string ForeignModel::head_name() const {
  Param head;
  head.name = "lm_head.weight";
  return stored_as(format_, section_, head).name;
}

void ForeignModel::check_tied_copy() const {
  const StoredTensor &head = *files_.find(head_name()), &table = *place_of((*table_.begin()).name).tensor;
  const auto differ = [&] {
    return DataError(
        fmt::format("{}: {} differs from the embedding, but tie_word_embeddings is true", path_.string(), head_name()));
  };
  if (head.shape != table.shape || head.dtype != table.dtype) throw differ();
  uint64_t bytes = size_of(element_type(head.dtype).value());
  for (const int64_t d : head.shape) bytes *= static_cast<uint64_t>(d);
  std::vector<std::byte> a(size_t{1} << 20), b(a.size());
  for (uint64_t at = 0; at < bytes; at += a.size()) {
    const auto n = static_cast<size_t>(std::min<uint64_t>(a.size(), bytes - at));
    files_.read(head.file, head.offset + at, std::span(a).first(n));
    files_.read(table.file, table.offset + at, std::span(b).first(n));
    if (std::memcmp(a.data(), b.data(), n) != 0) throw differ();
  }
}

void ForeignModel::read(const std::string& param, StateKind kind, const h5::Box& box, float* data,
                        const h5::Window& window) {
  FP_CHECK(kind == StateKind::param, "another program's files hold no {}", name_of(kind));
  const Place place = place_of(param);
  ElementReader reader(files_, *place.tensor);
  const bool matrix = box.count.rank() == 2;
  const int64_t rows = box.count[0], columns = matrix ? box.count[1] : 1;
  const int64_t row_step = matrix ? window.dims[1] : 1;
  float* first = data + window.start[0] * row_step + (matrix ? window.start[1] : 0);
  const auto row = [&](int64_t i) { return std::span(first + i * row_step, static_cast<size_t>(columns)); };
  if (place.as.arrangement == Arrangement::transposed) {
    std::vector<float> stored(static_cast<size_t>(rows));
    for (int64_t j = 0; j < columns; ++j) {
      reader.read((box.start[1] + j) * place.as.shape[1] + box.start[0], stored);
      for (int64_t i = 0; i < rows; ++i) first[i * row_step + j] = stored[static_cast<size_t>(i)];
    }
    return;
  }
  const int64_t stored_columns = matrix ? place.as.shape[1] : 1, column = matrix ? box.start[1] : 0;
  const bool in_order = place.as.arrangement == Arrangement::same;
  if (in_order && columns == stored_columns && columns == row_step)  // one run of elements on both sides
    return reader.read(box.start[0] * columns, std::span(first, static_cast<size_t>(rows * columns)));
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t r = box.start[0] + i;
    reader.read((in_order ? r : rotary_pair_row(r, section_.head_dim)) * stored_columns + column, row(i));
  }
}

namespace {

// What belongs to a model beside its weights and travels with it.
bool is_companion(const fs::path& path) {
  static const std::set<std::string> kNames = {"config.json",
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
  return kNames.contains(name) || path.extension() == ".tiktoken";
}

// Code that a Hugging Face folder runs, as phi-3-small's does; its config.json says so.
bool is_model_code(const fs::path& path, const std::string& config) {
  const std::string stem = path.stem().string();
  return path.extension() == ".py" && config.find("\"auto_map\"") != std::string::npos && !stem.empty() &&
         std::all_of(stem.begin(), stem.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

}  // namespace

std::string ForeignModel::identity() const {
  std::string text;
  for (const auto& [name, t] : files_.tensors()) text += fmt::format("{} {} {} {}\n", name, t.dtype, t.shape, t.offset);
  std::vector<std::byte> block(4096);
  for (size_t f = 0; f < files_.files(); ++f) {
    const uint64_t bytes = fs::file_size(files_.path(f)), step = std::max<uint64_t>(bytes / 64, block.size());
    text += fmt::format("{} {}\n", files_.path(f).filename().string(), bytes);
    for (uint64_t at = 0; at + block.size() <= bytes; at += step) {
      files_.read(f, at, block);
      text += hash_bytes(block.data(), block.size());
    }
  }
  return hash_bytes(text.data(), text.size());
}

std::string ForeignModel::origin() const {
  static constexpr const char* kFormats[] = {"hf", "meta", "llmc"};
  std::map<std::string, std::string> types;
  std::map<std::string, int> counts;
  for (const Param& p : table_) ++counts[types[p.name] = place_of(p.name).tensor->dtype];
  const std::string usual =
      std::max_element(counts.begin(), counts.end(), [](auto& a, auto& b) { return a.second < b.second; })->first;
  std::erase_if(types, [&](const auto& t) { return t.second == usual; });
  const nlohmann::ordered_json j = {
      {"format", kFormats[static_cast<size_t>(format_)]}, {"dtype", usual}, {"exceptions", types}};
  return j.dump(2) + "\n";
}

std::map<std::string, std::string> ForeignModel::carried() const {
  constexpr uintmax_t kMaxBytes = uintmax_t{256} << 20;
  std::map<std::string, std::string> files{{kOriginName, origin()}};
  if (format_ == WeightFormat::llmc) return files;
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
