#include "data/prepare/prepare.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/log.h"
#include "data/prepare/document_encoder.h"
#include "data/prepare/parallel_documents.h"
#include "data/prepare/progress.h"
#include "data/prepare/split_writer.h"
#include "data/tokenizer/tokenizer.h"
#include "io/filesystem.h"
#include "io/pending.h"

namespace fp {
namespace {

namespace fs = std::filesystem;

// Assigns each document to a split. Must be called in the order of the text.
class Splitter {
 public:
  enum class Side { train, validation, duplicate };

  // `folder` is used for a temporary file during the call.
  Splitter(const PrepareOptions& options, const fs::path& folder) : options_(options) {
    const double f = options.validation_fraction;
    if (!(f >= 0.0 && f < 1.0)) throw ConfigError(fmt::format("--validation-fraction {}: legal: 0 <= fraction < 1", f));
    if (options.validation_split != "last" && options.validation_split != "hash")
      throw ConfigError(fmt::format("--validation-split {}: legal values: last, hash", options.validation_split));
    if (f > 0.0 && options.validation_split == "last") find_last(folder / "hashes");
  }

  Side side_of(uint64_t hash) {
    const uint64_t i = seen_++;
    if (options_.validation_fraction == 0.0) return Side::train;
    if (options_.validation_split == "hash")
      return std::ldexp(static_cast<double>(hash), -64) < options_.validation_fraction ? Side::validation : Side::train;
    if (i >= first_validation_) return Side::validation;
    return std::binary_search(validation_hashes_.begin(), validation_hashes_.end(), hash) ? Side::duplicate
                                                                                          : Side::train;
  }
  void finish() const {
    if (counted_ && documents_ != seen_) throw DataError("the input files changed while they were read");
  }

 private:
  // First pass over the text: counts the documents and stores their hashes in a temporary file, since only their number
  // tells which ones are held out.
  void find_last(const fs::path& file) {
    CorpusReader reader(options_.corpus);
    TaskProgress progress("counting documents");
    HashingFile written(file);
    process_documents(
        reader,
        [this](const DocumentBatch& batch, int) {
          std::vector<uint64_t> result;
          std::string scratch;
          for (size_t i = 0; i < batch.size(); ++i)
            if (const auto text = sample_text(batch, i, options_.encoding.kind, scratch); !text.empty())
              result.push_back(sample_hash(text));
          return result;
        },
        [&](const std::vector<uint64_t>& more) { written.write(std::as_bytes(std::span(more))); },
        [&](uint64_t done, uint64_t total) { progress.update(done, total, "MB", 1e6); });
    written.close();
    const MappedFile mapped(file);
    fs::remove(file);
    const auto hashes = mapped.as<uint64_t>();
    const uint64_t n = hashes.size();
    const auto held_out = static_cast<uint64_t>(std::llround(static_cast<double>(n) * options_.validation_fraction));
    counted_ = true;
    documents_ = n;
    first_validation_ = n - std::max<uint64_t>(held_out, 1);
    if (n == 1 || (n > 0 && first_validation_ == 0))
      throw DataError(fmt::format(
          "the text holds {} document{} by the rule --documents {}, too few to hold out a fraction of "
          "{}: split it into smaller documents (line, lines:N, blank-line, start:REGEX) or use --validation-fraction 0",
          n, n == 1 ? "" : "s", options_.corpus.documents, options_.validation_fraction));
    const auto last = hashes.subspan(n > 0 ? first_validation_ : 0);
    validation_hashes_.assign(last.begin(), last.end());
    std::sort(validation_hashes_.begin(), validation_hashes_.end());
  }

  const PrepareOptions& options_;
  uint64_t seen_ = 0;
  uint64_t first_validation_ = 0;
  bool counted_ = false;
  uint64_t documents_ = 0;                   // only if counted_
  std::vector<uint64_t> validation_hashes_;  // sorted
};

void write_shards(const PrepareOptions& options, const Tokenizer& tokenizer, const fs::path& folder,
                  Manifest& manifest) {
  Splitter splitter(options, folder);
  SplitWriter train(folder, Split::train, manifest.token_bytes, options.shard_tokens);
  SplitWriter validation(folder, Split::validation, manifest.token_bytes, options.shard_tokens);
  // Both documents of a preference pair go to the same split.
  const size_t per_sample = options.encoding.kind == DataKind::preferences ? 2 : 1;
  const auto store = [&](const EncodedBatch& batch) {
    size_t begin = 0;
    auto side = Splitter::Side::train;
    for (size_t d = 0; d < batch.documents.size(); ++d) {
      const auto& document = batch.documents[d];
      const size_t n = document.end - begin;
      const auto ids = std::span(batch.ids).subspan(begin, n);
      const auto loss_mask =
          std::span(batch.loss_mask).subspan(batch.loss_mask.empty() ? 0 : begin, batch.loss_mask.empty() ? 0 : n);
      begin = document.end;
      if (n == 0) {
        ++manifest.empty_documents;
        continue;
      }
      if (d % per_sample == 0) side = splitter.side_of(document.hash);
      if (side == Splitter::Side::duplicate)
        ++manifest.duplicate_documents;
      else
        (side == Splitter::Side::train ? train : validation).append(ids, document.text_bytes, loss_mask);
    }
  };
  CorpusReader reader(options.corpus);
  TaskProgress progress("tokenizing");
  process_documents(reader, DocumentEncoder(tokenizer, options.encoding), store,
                    [&](uint64_t done, uint64_t total) { progress.update(done, total, "MB", 1e6); });
  splitter.finish();
  manifest.train = train.finish();
  manifest.validation = validation.finish();
  manifest.highest_id = std::max(train.highest_id(), validation.highest_id());
}

void check_result(const PrepareOptions& options, const Manifest& m) {
  if (m.train.documents + m.validation.documents + m.duplicate_documents == 0)
    throw DataError(fmt::format("the {} input file{} hold{} no text: there is nothing to train on",
                                options.corpus.files.size(), options.corpus.files.size() == 1 ? "" : "s",
                                options.corpus.files.size() == 1 ? "s" : ""));
  const bool held_out = options.validation_fraction > 0.0;
  if (m.train.documents == 0 || (held_out && m.validation.documents == 0))
    throw DataError(
        fmt::format("of {} documents ({} of them repeat held-out ones) none is left for the {} split: split the "
                    "text into smaller documents with --documents, or change --validation-fraction {}",
                    m.train.documents + m.validation.documents + m.duplicate_documents, m.duplicate_documents,
                    m.train.documents == 0 ? "train" : "validation", options.validation_fraction));
}

void check_target(const PrepareOptions& options) {
  if (!fs::exists(options.out)) return;
  if (!options.overwrite)
    throw ConfigError(
        fmt::format("--out {}: exists already; choose another name or pass --overwrite", options.out.string()));
  if (!fs::exists(options.out / Manifest::kFileName))
    throw ConfigError(
        fmt::format("--out {}: --overwrite replaces only a folder made by `data prepare`, and this one has no {}",
                    options.out.string(), Manifest::kFileName));
}

}  // namespace

Manifest prepare(const PrepareOptions& given) {
  PrepareOptions options = given;
  options.out = fs::absolute(given.out).lexically_normal();
  if (!options.out.has_filename()) options.out = options.out.parent_path();
  if (options.shard_tokens == 0) throw ConfigError("--shard-tokens 0: a shard holds at least one token");
  check_target(options);
  const auto tokenizer = load_tokenizer(options.tokenizer);

  Manifest manifest = new_manifest(*tokenizer);
  manifest.kind = options.encoding.kind;
  manifest.chat_template = options.encoding.chat.format;
  manifest.shard_tokens = options.shard_tokens;
  manifest.documents = options.corpus.documents;
  manifest.validation_split = options.validation_fraction > 0.0 ? options.validation_split : "none";
  manifest.validation_fraction = options.validation_fraction;

  PendingFolder folder(options.out);
  write_shards(options, *tokenizer, folder.path(), manifest);
  check_result(options, manifest);
  for (const auto& file : options.corpus.files)
    manifest.sources.push_back({file.filename().string(), fs::file_size(file)});
  write_manifest(folder.path(), *tokenizer, manifest);
  folder.publish();
  return manifest;
}

}  // namespace fp
