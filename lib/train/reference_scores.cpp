#include "train/reference_scores.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/log.h"
#include "io/filesystem.h"
#include "io/json.h"

namespace fp {
namespace {

// Returns a file's first line: JSON with "identity", "source" and "xxh3". The values follow as little-endian doubles.
std::string header_of(const nlohmann::json& identity, const std::string& source, const std::vector<double>& values) {
  const nlohmann::json j = {
      {"identity", identity}, {"source", source}, {"xxh3", hash_bytes(values.data(), values.size() * sizeof(double))}};
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

// Runs task(first, count) over [0, n) in steps and logs the progress.
template <class Task>
void in_steps(uint64_t n, int64_t step, const char* what, Task&& task) {
  uint64_t announced = 0;
  for (uint64_t first = 0; first < n; first += static_cast<uint64_t>(step)) {
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
  if (file.substr(0, line) != header_of(part.identity, stored, values) || (source && *source != stored)) {
    log::warning("{}: is damaged, or of other data or another reference model; it is recomputed", path.string());
    return false;
  }
  part.values = std::move(values);
  return true;
}

void ReferenceScores::write(const std::filesystem::path& folder, const Part& part, const std::string& source) const {
  const std::string_view raw(reinterpret_cast<const char*>(part.values.data()), part.values.size() * sizeof(double));
  write_file_atomically(folder / part.file, header_of(part.identity, source, part.values) + std::string(raw));
}

bool ReferenceScores::load(const std::filesystem::path& folder, const std::optional<std::string>& source,
                           Group& world) {
  for (Part* part : {&training_, &held_out_}) {
    double missing = part->ready || read(folder, *part, source) ? 0 : 1;
    world.all_reduce(std::span(&missing, 1));
    part->ready = missing == 0;
  }
  return training_.ready && held_out_.ready;
}

void ReferenceScores::score_training(Executor& executor, int64_t samples) {
  Batch batch;
  for (size_t d = 0; d < first_document_.size(); ++d)
    in_steps(train_.epoch_samples(static_cast<int>(d)), samples, "pairs", [&](uint64_t first, int64_t n) {
      train_.fill_in_order(static_cast<int>(d), first, n, batch);
      const std::vector<double> losses = executor.row_losses(batch);
      for (size_t row = 0; row < losses.size(); ++row) {
        const uint64_t document = train_.document_in_order(static_cast<int>(d), first + row / 2) + row % 2;
        training_.values[first_document_[d] + document] = -losses[row];
      }
    });
}

void ReferenceScores::score_held_out(Executor& executor, int64_t samples) {
  Batch batch;
  in_steps(held_out_.values.size() / 2, samples, "held-out pairs", [&](uint64_t first, int64_t n) {
    validation_->fill(first, n, batch);
    const std::vector<double> losses = executor.row_losses(batch);
    for (size_t row = 0; row < losses.size(); ++row) held_out_.values[2 * first + row] = -losses[row];
  });
}

void ReferenceScores::compute(Executor& executor, int64_t samples, const std::filesystem::path& folder,
                              const std::string& source, bool writer) {
  if (!training_.ready) {
    score_training(executor, samples);
    if (writer) write(folder, training_, source);
  }
  if (!held_out_.ready) {
    score_held_out(executor, samples);
    if (writer) write(folder, held_out_, source);
  }
  training_.ready = held_out_.ready = true;
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
