#include "train/reference_scores.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/filesystem.h"
#include "base/log.h"

namespace fp {
namespace {

// The file: one line of JSON, {"identity", "values", "xxh3"}, then the values as little-endian doubles.
std::string header_of(const nlohmann::json& identity, const std::vector<double>& values) {
  const nlohmann::json j = {{"identity", identity},
                            {"values", values.size()},
                            {"xxh3", hash_bytes(values.data(), values.size() * sizeof(double))}};
  return j.dump() + "\n";
}

// Runs task(first, count) over [0, n) in steps, saying now and then how far it is.
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
                                 nlohmann::json identity)
    : train_(train), validation_(validation), identity_(std::move(identity)) {
  for (const auto& d : train.datasets())
    by_document_.emplace_back(d->documents(), std::numeric_limits<double>::quiet_NaN());
  if (validation != nullptr) held_out_.resize(static_cast<size_t>(2 * validation->size()));
}

std::vector<double> ReferenceScores::all() const {
  std::vector<double> values;
  for (const auto& list : by_document_) values.insert(values.end(), list.begin(), list.end());
  values.insert(values.end(), held_out_.begin(), held_out_.end());
  return values;
}

bool ReferenceScores::load(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return false;
  const std::string file = read_file(path);
  std::vector<double> values = all();
  const size_t line = file.find('\n') + 1, bytes = values.size() * sizeof(double);
  if (line == 0 || file.size() - line != bytes)
    throw DataError(fmt::format("{}: is not the reference scores of this run's data; delete it to compute them anew",
                                path.string()));
  std::memcpy(values.data(), file.data() + line, bytes);
  if (file.substr(0, line) != header_of(identity_, values))
    throw DataError(
        fmt::format("{}: is damaged, or of other data or another reference model; delete it to compute it "
                    "anew",
                    path.string()));
  auto at = values.begin();
  for (auto& list : by_document_) {
    std::copy_n(at, list.size(), list.begin());
    at += static_cast<int64_t>(list.size());
  }
  std::copy(at, values.end(), held_out_.begin());
  return true;
}

void ReferenceScores::compute(Executor& executor, int64_t samples, const std::filesystem::path& path) {
  Batch batch;
  for (size_t d = 0; d < by_document_.size(); ++d)
    in_steps(train_.epoch_samples(static_cast<int>(d)), samples, "pairs", [&](uint64_t first, int64_t n) {
      train_.fill_in_order(static_cast<int>(d), first, n, batch);
      const std::vector<double> losses = executor.row_losses(batch);
      for (size_t row = 0; row < losses.size(); ++row) {
        const uint64_t document = train_.document_in_order(static_cast<int>(d), first + row / 2) + row % 2;
        by_document_[d][document] = -losses[row];
      }
    });
  in_steps(held_out_.size() / 2, samples, "held-out pairs", [&](uint64_t first, int64_t n) {
    validation_->fill(first, n, batch);
    const std::vector<double> losses = executor.row_losses(batch);
    for (size_t row = 0; row < losses.size(); ++row) held_out_[2 * first + row] = -losses[row];
  });
  const std::vector<double> values = all();
  const std::string_view raw(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
  write_file_atomically(path, header_of(identity_, values) + std::string(raw));
}

void ReferenceScores::attach(uint64_t first, Batch& batch) const {
  batch.reference_logp.clear();
  for (int64_t row = 0; row < batch.n; ++row) {
    const TrainSampler::Place place = train_.place(first + static_cast<uint64_t>(row / 2));
    const double score =
        by_document_[static_cast<size_t>(place.dataset)][place.document + static_cast<uint64_t>(row % 2)];
    FP_CHECK(std::isfinite(score), "no reference score for document {}", place.document);
    batch.reference_logp.push_back(score);
  }
}

void ReferenceScores::attach_validation(uint64_t first, Batch& batch) const {
  const auto begin = held_out_.begin() + static_cast<int64_t>(2 * first);
  batch.reference_logp.assign(begin, begin + batch.n);
}

}  // namespace fp
