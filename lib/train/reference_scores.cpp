#include "train/reference_scores.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/log.h"
#include "io/filesystem.h"
#include "io/json.h"

namespace fp {
namespace {

constexpr std::chrono::minutes kSaveEvery{5};

// Returns a file's first line: JSON with "identity", "source", "xxh3" and, unless all scores are there, "partial". The
// values follow as little-endian doubles.
std::string header_of(const nlohmann::json& identity, const std::string& source, const std::vector<double>& values,
                      bool partial) {
  nlohmann::json j = {
      {"identity", identity}, {"source", source}, {"xxh3", hash_bytes(values.data(), values.size() * sizeof(double))}};
  if (partial) j["partial"] = true;
  return j.dump() + "\n";
}

// Returns null when the line is not valid JSON.
nlohmann::json header_from(std::string_view line, const std::string& where) {
  try {
    return parse_json(line, where);
  } catch (const JsonError&) {
    return nullptr;
  }
}

// Runs task(first, count) over [begin, n) in steps and logs the progress.
template <class Task>
void in_steps(uint64_t begin, uint64_t n, int64_t step, const char* what, Task&& task) {
  uint64_t announced = begin;
  for (uint64_t first = begin; first < n; first += static_cast<uint64_t>(step)) {
    task(first, static_cast<int64_t>(std::min<uint64_t>(static_cast<uint64_t>(step), n - first)));
    if (first - announced >= n / 10 && n >= 1000)
      log::info("reference scores: {} of {} {}", announced = first, n, what);
  }
}

}  // namespace

ReferenceScores::ReferenceScores(const TrainSampler& train, const ValidationSampler* validation,
                                 nlohmann::json train_identity, nlohmann::json validation_identity)
    : train_(train),
      validation_(validation),
      training_{"reference-scores.bin", std::move(train_identity), {}},
      held_out_{"reference-scores-held-out.bin", std::move(validation_identity), {}} {
  uint64_t documents = 0;
  for (const auto& d : train.datasets()) {
    first_document_.push_back(documents);
    documents += d->documents();
  }
  training_.values.resize(documents, std::numeric_limits<double>::quiet_NaN());
  held_out_.values.resize(validation != nullptr ? static_cast<size_t>(2 * validation->size()) : 0);
  held_out_.ready = validation == nullptr;
}

bool ReferenceScores::read(const std::filesystem::path& folder, Part& part,
                           const std::optional<std::string>& source) const {
  std::error_code error;
  const std::filesystem::path path = folder / part.file;
  if (!std::filesystem::exists(path, error)) return false;
  const std::string file = read_file(path);
  const size_t line = file.find('\n') + 1, bytes = part.values.size() * sizeof(double);
  const nlohmann::json header = header_from(std::string_view(file).substr(0, line), path.string());
  const bool ours = header.is_object() && header.contains("source") && header["source"].is_string();
  if (!ours || file.size() - line != bytes) {
    log::warning("{}: does not hold the reference scores of this run's data; they are recomputed", path.string());
    return false;
  }
  std::vector<double> values(part.values.size());
  if (bytes > 0) std::memcpy(values.data(), file.data() + line, bytes);
  const std::string stored = header["source"].get<std::string>();
  const bool partial = header.contains("partial");
  if (file.substr(0, line) != header_of(part.identity, stored, values, partial) || (source && *source != stored)) {
    log::warning("{}: is damaged, or of other data or another reference model; it is recomputed", path.string());
    return false;
  }
  if (partial && !source) return false;  // another model might go on with it
  part.values = std::move(values);
  part.source = stored;
  return !partial;
}

void ReferenceScores::write(const std::filesystem::path& folder, const Part& part, const std::string& source,
                            bool partial) const {
  const std::string_view raw(reinterpret_cast<const char*>(part.values.data()), part.values.size() * sizeof(double));
  write_file_atomically(folder / part.file, header_of(part.identity, source, part.values, partial) + std::string(raw));
}

// Returns the number of pairs, in the order in which they are scored, before the first one without scores.
uint64_t ReferenceScores::scored() const {
  uint64_t count = 0;
  for (size_t d = 0; d < first_document_.size(); ++d)
    for (uint64_t i = 0; i < train_.epoch_samples(static_cast<int>(d)); ++i, ++count) {
      const uint64_t document = first_document_[d] + train_.document_in_order(static_cast<int>(d), i);
      if (std::isnan(training_.values[document]) || std::isnan(training_.values[document + 1])) return count;
    }
  return count;
}

bool ReferenceScores::load(const std::filesystem::path& folder, const std::optional<std::string>& source,
                           Group& world) {
  for (Part* part : {&training_, &held_out_}) {
    double missing = part->ready || read(folder, *part, source) ? 0 : 1;
    world.all_reduce(std::span(&missing, 1));
    part->ready = missing == 0;
  }
  // Scoring is collective: all ranks go on with the same pair.
  begin_ = std::numeric_limits<uint64_t>::max();
  for (const std::string& count : world.all_gather(std::to_string(scored())))
    begin_ = std::min<uint64_t>(begin_, std::stoull(count));
  return training_.ready && held_out_.ready;
}

void ReferenceScores::score_training(Executor& executor, int64_t samples, const std::function<void()>& save) {
  Batch batch;
  auto saved = std::chrono::steady_clock::now();
  uint64_t before = 0;  // pairs of earlier datasets
  for (size_t d = 0; d < first_document_.size(); ++d) {
    const uint64_t pairs = train_.epoch_samples(static_cast<int>(d));
    const uint64_t begin = std::min(pairs, begin_ - std::min(begin_, before));
    before += pairs;
    in_steps(begin, pairs, samples, "pairs", [&](uint64_t first, int64_t n) {
      train_.fill_in_order(static_cast<int>(d), first, n, batch);
      const std::vector<double> losses = executor.row_losses(batch);
      for (size_t row = 0; row < losses.size(); ++row) {
        const uint64_t document = train_.document_in_order(static_cast<int>(d), first + row / 2) + row % 2;
        training_.values[first_document_[d] + document] = -losses[row];
      }
      if (const auto now = std::chrono::steady_clock::now(); now - saved >= kSaveEvery) {
        save();
        saved = now;
      }
    });
  }
}

void ReferenceScores::score_held_out(Executor& executor, int64_t samples) {
  Batch batch;
  in_steps(0, held_out_.values.size() / 2, samples, "held-out pairs", [&](uint64_t first, int64_t n) {
    validation_->fill(first, n, batch);
    const std::vector<double> losses = executor.row_losses(batch);
    for (size_t row = 0; row < losses.size(); ++row) held_out_.values[2 * first + row] = -losses[row];
  });
}

void ReferenceScores::compute(Executor& executor, int64_t samples, const std::filesystem::path& folder,
                              const std::string& source, bool writer) {
  if (!training_.ready) {
    if (begin_ > 0 && writer) log::info("reference scores: the first {} pairs were scored before", begin_);
    score_training(executor, samples, [&] {
      if (writer) write(folder, training_, source, true);
    });
    if (writer) write(folder, training_, source, false);
  }
  if (!held_out_.ready) {
    score_held_out(executor, samples);
    if (writer) write(folder, held_out_, source, false);
  }
  training_.ready = held_out_.ready = true;
  training_.source = held_out_.source = source;
}

void ReferenceScores::attach(uint64_t first, Batch& batch) const {
  batch.reference_logp.clear();
  for (int64_t row = 0; row < batch.n; ++row) {
    const TrainSampler::Place place = train_.place(first + static_cast<uint64_t>(row / 2));
    const uint64_t document = place.document + static_cast<uint64_t>(row % 2);
    const double score = training_.values[first_document_[static_cast<size_t>(place.dataset)] + document];
    FP_CHECK(std::isfinite(score), "no reference score for document {}", document);
    batch.reference_logp.push_back(score);
  }
}

void ReferenceScores::attach_validation(uint64_t first, Batch& batch) const {
  const auto begin = held_out_.values.begin() + static_cast<int64_t>(2 * first);
  batch.reference_logp.assign(begin, begin + batch.n);
}

}  // namespace fp
