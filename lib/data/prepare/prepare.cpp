#include "data/prepare/prepare.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/task_progress.h"
#include "data/prepare/document_encoder.h"
#include "data/prepare/parallel_documents.h"
#include "data/prepare/split_writer.h"
#include "data/text/conversation.h"
#include "data/text/text_census.h"
#include "data/tokenizer/tokenizer.h"
#include "io/filesystem.h"
#include "io/pending.h"

namespace fp {
namespace {

namespace fs = std::filesystem;

// The JSON lines of a corpus are all that `documents` does not apply to.
bool all_json_lines(const CorpusOptions& corpus) {
  return std::all_of(corpus.files.begin(), corpus.files.end(),
                     [&](const fs::path& file) { return is_json_lines(file, corpus.format); });
}

std::string advice_to_divide(const PrepareOptions& options) {
  if (options.encoding.kind != DataKind::text || all_json_lines(options.corpus))
    return "add lines (a JSON line is one document)";
  return "divide the text into smaller documents (--documents line, lines:N, blank-line, start:REGEX)";
}

// Assigns each document to a split. Must be called in the order of the text.
class Splitter {
 public:
  enum class Side { train, validation, duplicate };

  // `folder` is used for a temporary file during the call. `corpus` is that of `options`; its `cut` is set where the
  // last document is divided. `census` counts the text if this reads it.
  Splitter(const PrepareOptions& options, const fs::path& folder, CorpusOptions& corpus, TextCensus& census)
      : options_(options) {
    const double f = options.validation_fraction;
    if (!(f >= 0.0 && f < 1.0)) throw ConfigError(fmt::format("--validation-fraction {}: legal: 0 <= fraction < 1", f));
    if (options.validation_split != "last" && options.validation_split != "hash")
      throw ConfigError(fmt::format("--validation-split {}: legal values: last, hash", options.validation_split));
    if (f > 0.0 && options.validation_split == "last") find_last(folder / "hashes", corpus, census);
  }

  bool has_read_text() const { return counted_; }
  Side side_of(uint64_t hash, uint64_t tokens) {
    const uint64_t i = seen_++;
    if (options_.validation_fraction == 0.0) return Side::train;
    if (options_.validation_split == "hash")
      return std::ldexp(static_cast<double>(hash), -64) < options_.validation_fraction ? Side::validation : Side::train;
    if (i >= first_validation_) return Side::validation;
    const bool long_enough = options_.drop_repeats > 0 && tokens >= options_.drop_repeats;
    return long_enough && std::binary_search(validation_hashes_.begin(), validation_hashes_.end(), hash)
               ? Side::duplicate
               : Side::train;
  }
  void finish() const {
    if (counted_ && documents_ != seen_) throw DataError("the input files changed while they were read");
  }

 private:
  struct Last {
    DocumentCut place;
    uint64_t bytes = 0;
    bool json = false;
  };
  struct Seen {
    std::vector<uint64_t> hashes;
    BatchCount counts;
    uint64_t bytes = 0;
    std::optional<Last> last;
  };

  Seen scan(const DocumentBatch& batch) const {
    Seen seen{{}, count_text(batch), 0, std::nullopt};
    std::string scratch;
    for (size_t i = 0; i < batch.size(); ++i) {
      const auto text = sample_text(batch, i, options_.encoding.kind, scratch);
      if (text.empty()) continue;
      seen.hashes.push_back(sample_hash(text));
      seen.bytes += text.size();
      seen.last = {{batch.file(i), batch.line(i), 0}, text.size(), batch.is_json(i)};
    }
    return seen;
  }

  // First pass over the text: counts the documents and stores their hashes in a temporary file, since only their number
  // tells which ones are held out.
  void find_last(const fs::path& file, CorpusOptions& corpus, TextCensus& census) {
    CorpusReader reader(corpus);
    TaskProgress progress("counting documents");
    HashingFile written(file);
    uint64_t bytes = 0;
    std::optional<Last> last;
    process_documents(
        reader, [this](const DocumentBatch& batch, int) { return scan(batch); },
        [&](const Seen& more) {
          written.write(std::as_bytes(std::span(more.hashes)));
          census.add(more.counts);
          bytes += more.bytes;
          if (more.last) last = more.last;
        },
        [&](uint64_t done, uint64_t total) { progress.update(done, total, "MB", 1e6); });
    written.close();
    census.require_text();
    const MappedFile mapped(file);
    fs::remove(file);
    choose(mapped.as<uint64_t>(), last ? cut_of(*last, mapped.as<uint64_t>().size(), bytes) : std::nullopt, corpus);
  }

  // Reads all conversations, so that a mistake in one is reported and not that there are too few.
  void check_lines(const CorpusOptions& corpus) const {
    if (options_.encoding.kind == DataKind::text) return;
    CorpusReader reader(corpus);
    for (DocumentBatch batch; reader.next(1, batch);)
      for (size_t i = 0; i < batch.size(); ++i) {
        if (options_.encoding.kind == DataKind::preferences)
          parse_preference(batch.object(i), batch.place(i));
        else
          parse_conversation(batch.object(i), batch.place(i));
      }
  }

  // Returns where to divide the last file; nothing where whole documents are held out.
  std::optional<DocumentCut> cut_of(const Last& last, uint64_t documents, uint64_t bytes) const {
    const auto held_out =
        static_cast<uint64_t>(std::llround(static_cast<double>(bytes) * options_.validation_fraction));
    if (static_cast<double>(documents) * options_.validation_fraction >= 1.0) return std::nullopt;
    if (last.json || DocumentRule(options_.corpus.documents).kind() != DocumentRule::Kind::file) return std::nullopt;
    if (held_out == 0 || held_out >= last.bytes) return std::nullopt;
    DocumentCut cut = last.place;
    cut.offset = last.bytes - held_out;
    return cut;
  }

  void choose(std::span<const uint64_t> hashes, const std::optional<DocumentCut>& cut, CorpusOptions& corpus) {
    const uint64_t n = hashes.size();
    counted_ = true;
    if (cut) {
      corpus.cut = cut;
      documents_ = n + 1;
      first_validation_ = n;
      return;
    }
    const auto held_out = static_cast<uint64_t>(std::llround(static_cast<double>(n) * options_.validation_fraction));
    documents_ = n;
    first_validation_ = n - std::max<uint64_t>(held_out, 1);
    if (n == 1 || (n > 0 && first_validation_ == 0)) {
      check_lines(corpus);
      throw DataError(fmt::format(
          "the text holds {} document{}, too few to hold out a fraction of {}: {} or use --validation-fraction 0", n,
          n == 1 ? "" : "s", options_.validation_fraction, advice_to_divide(options_)));
    }
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

// Returns the file whose end is held out, if a file is divided.
std::optional<fs::path> write_shards(const PrepareOptions& options, const Tokenizer& tokenizer, const fs::path& folder,
                                     TextCensus& census, Manifest& manifest) {
  CorpusOptions corpus = options.corpus;
  Splitter splitter(options, folder, corpus, census);
  SplitWriter train(folder, Split::train, manifest.token_bytes, options.shard_tokens);
  SplitWriter validation(folder, Split::validation, manifest.token_bytes, options.shard_tokens);
  // Both documents of a preference pair go to the same split.
  const size_t per_sample = options.encoding.kind == DataKind::preferences ? 2 : 1;
  const auto store = [&](const std::pair<EncodedBatch, BatchCount>& result) {
    const EncodedBatch& batch = result.first;
    if (!splitter.has_read_text()) census.add(result.second);
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
      if (d % per_sample == 0) side = splitter.side_of(document.hash, n);
      if (side == Splitter::Side::duplicate)
        ++manifest.duplicate_documents;
      else
        (side == Splitter::Side::train ? train : validation).append(ids, document.text_bytes, loss_mask);
    }
  };
  CorpusReader reader(corpus);
  TaskProgress progress("tokenizing");
  const DocumentEncoder encode(tokenizer, options.encoding);
  const auto process = [&](const DocumentBatch& batch, int thread) {
    return std::pair(encode(batch, thread), splitter.has_read_text() ? BatchCount() : count_text(batch));
  };
  process_documents(reader, process, store,
                    [&](uint64_t done, uint64_t total) { progress.update(done, total, "MB", 1e6); });
  splitter.finish();
  census.require_text();
  manifest.train = train.finish();
  manifest.validation = validation.finish();
  manifest.highest_id = std::max(train.highest_id(), validation.highest_id());
  return corpus.cut ? std::optional(corpus.files[corpus.cut->file]) : std::nullopt;
}

void check_result(const PrepareOptions& options, const Manifest& m) {
  if (m.train.documents + m.validation.documents + m.duplicate_documents == 0)
    throw DataError(fmt::format("the {} input file{} hold{} no text: there is nothing to train on",
                                options.corpus.files.size(), options.corpus.files.size() == 1 ? "" : "s",
                                options.corpus.files.size() == 1 ? "s" : ""));
  const bool held_out = options.validation_fraction > 0.0;
  if (m.train.documents == 0 || (held_out && m.validation.documents == 0))
    throw DataError(fmt::format(
        "of {} documents ({} of them repeat held-out ones) none is left for the {} split: {} or change "
        "--validation-fraction {}",
        m.train.documents + m.validation.documents + m.duplicate_documents, m.duplicate_documents,
        m.train.documents == 0 ? "train" : "validation", advice_to_divide(options), options.validation_fraction));
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

Manifest prepare(const PrepareOptions& given, InputReport* report) {
  PrepareOptions options = given;
  options.out = fs::absolute(given.out).lexically_normal();
  if (!options.out.has_filename()) options.out = options.out.parent_path();
  if (options.shard_tokens == 0) throw ConfigError("--shard-tokens 0: a shard holds at least one token");
  check_target(options);
  Inputs inputs = find_inputs(given.corpus.files, given.corpus.format);
  options.corpus.files = std::move(inputs.files);
  const auto tokenizer = load_tokenizer(options.tokenizer);

  Manifest manifest = new_manifest(*tokenizer);
  manifest.kind = options.encoding.kind;
  manifest.chat_template = options.encoding.chat.format;
  manifest.shard_tokens = options.shard_tokens;
  const bool no_rule = options.encoding.kind != DataKind::text || all_json_lines(options.corpus);
  manifest.documents = no_rule ? Manifest::kJsonLines : options.corpus.documents;
  manifest.validation_split = options.validation_fraction > 0.0 ? options.validation_split : "none";
  manifest.validation_fraction = options.validation_fraction;

  TextCensus census(options.corpus);
  PendingFolder folder(options.out);
  const std::optional<fs::path> divided = write_shards(options, *tokenizer, folder.path(), census, manifest);
  check_result(options, manifest);
  const std::vector<std::string> names = short_names(options.corpus.files);
  for (size_t i = 0; i < names.size(); ++i)
    manifest.sources.push_back({names[i], fs::file_size(options.corpus.files[i])});
  write_manifest(folder.path(), *tokenizer, manifest);
  folder.publish();
  if (report) *report = {std::move(inputs.skipped), census.empty_files(), census.accepted(), divided};
  return manifest;
}

}  // namespace fp
