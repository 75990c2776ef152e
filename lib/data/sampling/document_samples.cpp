#include "data/sampling/document_samples.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"

namespace fp {
namespace {

// Returns whether there is a target among the first `tokens` tokens from `begin`.
bool has_target(const Dataset& dataset, uint64_t begin, uint64_t tokens) {
  if (tokens < 2) return false;
  if (!dataset.has_loss_mask()) return true;
  std::vector<int32_t> loss_mask(tokens - 1);
  dataset.read_loss_mask(begin + 1, loss_mask);
  return std::find(loss_mask.begin(), loss_mask.end(), 1) != loss_mask.end();
}

}  // namespace

DocumentSamples::DocumentSamples(const Dataset& dataset, int64_t seq_len, LongDocuments long_documents) {
  const uint64_t most = static_cast<uint64_t>(seq_len) + 1, documents = dataset.documents();
  const auto per_sample = static_cast<uint64_t>(dataset.documents_per_sample());
  uint64_t too_long = 0, longest = 0, which = 0, dropped = 0, empty = 0;
  for (uint64_t first = 0; first < documents; first += per_sample) {
    bool fits = true, has_targets = true;
    for (uint64_t d = first; d < first + per_sample; ++d) {
      const auto [begin, end] = dataset.document(d);
      if (end - begin > longest) longest = end - begin, which = d;
      too_long += end - begin > most ? 1 : 0;
      fits = fits && end - begin <= most;
      has_targets = has_targets && has_target(dataset, begin, std::min(end - begin, most));
    }
    if (!fits && long_documents == LongDocuments::drop)
      ++dropped;
    else if (!has_targets)
      ++empty;
    else
      first_documents_.push_back(first);
  }
  if (too_long > 0 && long_documents == LongDocuments::error)
    throw DataError(fmt::format(
        "{}: {} of {} documents are longer than the {} tokens that fit into data.seq_len: {}; the longest, document "
        "{}, has {}: raise seq_len, or choose data.long_documents: truncate or drop",
        dataset.name(), too_long, documents, most, seq_len, which, longest));
  if (dropped > 0)
    log::warning("{}: {} of {} samples are longer than data.seq_len and left out", dataset.name(), dropped,
                 documents / per_sample);
  if (empty > 0)
    log::warning("{}: {} of {} samples have no target within data.seq_len and are left out", dataset.name(), empty,
                 documents / per_sample);
  if (first_documents_.empty())
    throw DataError(fmt::format("{}: none of its {} documents can be used with data.seq_len: {}", dataset.name(),
                                documents, seq_len));
}

}  // namespace fp
