#include "data/formats/dataset.h"

#include <algorithm>

#include "base/error.h"
#include "data/formats/flat_dataset.h"
#include "data/formats/manifest.h"
#include "data/formats/megatron.h"
#include "data/formats/prepared_dataset.h"
#include "data/text/byte_source.h"
#include "data/text/inputs.h"
#include "io/filesystem.h"

namespace fp {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFormats = "auto, prepared, megatron, llmc, nanogpt";

// Returns whether a file begins as text does. Token ids of small vocabularies hold zero bytes.
bool is_text(const fs::path& path) {
  if (!fs::is_regular_file(path)) return false;
  std::string block(4096, '\0');
  block.resize(open_source(path)->read(std::span(block.data(), block.size())));
  // The last character of a full block may be incomplete.
  return !block.empty() && bytes_not_text(block) <= (block.size() == 4096 ? 3u : 0u);
}

[[noreturn]] void refuse_text(const std::string& path) {
  throw ConfigError(
      fmt::format("{}: is {}, not a dataset of token ids; `fptrain data prepare --tokenizer TOKENIZER --out FOLDER {}` "
                  "makes one, and "
                  "data.train[].path names that folder",
                  path, fs::is_directory(path) ? "a folder of text" : "text", path));
}

// Returns whether a folder holds text to prepare. One that lost its manifest, or whose folders are prepared ones, does
// not: it has a tokenizer.json, or they have a manifest.
bool is_folder_of_text(const fs::path& folder) {
  constexpr int kMostFiles = 16;
  int files = 0;
  bool text = false;
  if (fs::exists(folder / Manifest::kFileName) || fs::exists(folder / "tokenizer.json")) return false;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory() && fs::exists(entry.path() / Manifest::kFileName)) return false;
    text = text || (entry.is_regular_file() && files++ < kMostFiles && is_text(entry.path()));
  }
  return text;
}

std::string recognise(const std::string& path) {
  if (fs::is_directory(path)) {
    if (is_folder_of_text(path)) refuse_text(path);
    return "prepared";
  }
  if (is_megatron(path)) return "megatron";
  if (is_llmc(path)) return "llmc";
  const auto files = matching_files(path);
  if (files.empty()) throw DataError(fmt::format("{}: no such file or folder", path));
  if (is_text(files.front())) refuse_text(path);
  throw ConfigError(
      fmt::format("{}: its format cannot be recognised (no prepared folder, no .idx beside it, no llm.c header); if it "
                  "contains raw 16-bit ids as nanoGPT writes them, set format: nanogpt; legal: {}",
                  path, kFormats));
}

void need_tokenizer(const DatasetSource& source, const std::string& format) {
  if (!source.tokenizer)
    throw ConfigError(fmt::format(
        "{}: a dataset of format {} does not contain its tokenizer: name one (data.tokenizer, or --tokenizer)",
        source.path, format));
}

}  // namespace

void Dataset::read_loss_mask(uint64_t begin, std::span<int32_t> out) const {
  if (has_loss_mask_)
    loss_mask_.read(begin, out, 1);
  else
    std::fill(out.begin(), out.end(), 1);
}

void Dataset::mark_document_starts(uint64_t begin, std::span<const int32_t> tokens, std::span<uint8_t> starts) const {
  FP_CHECK(tokens.size() == starts.size(), "{} tokens, {} flags", tokens.size(), starts.size());
  std::fill(starts.begin(), starts.end(), uint8_t{0});
  if (separator_) {
    for (size_t i = 1; i < tokens.size(); ++i) starts[i] = tokens[separator_->begins ? i : i - 1] == separator_->id;
    return;
  }
  // Binary search for the first document that begins after `begin`.
  uint64_t low = 0, high = documents();
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (document(middle).first > begin)
      high = middle;
    else
      low = middle + 1;
  }
  for (; low < documents() && document(low).first - begin < starts.size(); ++low)
    starts[document(low).first - begin] = 1;
}

std::unique_ptr<Dataset> open_dataset(const DatasetSource& source, Split split, const OpenOptions& options) {
  const std::string format = source.format == "auto" ? recognise(source.path) : source.format;
  if (format == "prepared") {
    auto dataset = std::make_unique<PreparedDataset>(source.path, split, options);
    if (source.tokenizer && source.tokenizer->hash() != dataset->tokenizer().hash())
      throw ConfigError(fmt::format(
          "{}: was prepared with another tokenizer than the one named (data.tokenizer, or --tokenizer); a prepared "
          "folder contains its own, so omit that setting",
          source.path));
    return dataset;
  }
  if (format != "megatron" && format != "llmc" && format != "nanogpt")
    throw ConfigError(fmt::format("{}: format {}: legal values: {}", source.path, format, kFormats));
  need_tokenizer(source, format);
  if (split == Split::validation) return nullptr;
  if (format == "megatron") return std::make_unique<MegatronDataset>(source.path, source.tokenizer);
  return std::make_unique<FlatDataset>(
      source.path, format == "llmc" ? FlatDataset::Kind::llmc : FlatDataset::Kind::nanogpt, source.tokenizer);
}

}  // namespace fp
