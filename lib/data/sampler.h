// Which tokens each sample holds. Training order is a pure function of (seed, epoch, global sample index): the only
// state of the loader is the number of samples consumed, and sample g is the same under every batch size and rank
// count.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "config/run_spec.h"
#include "data/batch.h"
#include "data/dataset.h"
#include "data/document_samples.h"
#include "data/mixture.h"

namespace fp {

// The entries of the tokenizer of a run's data, of which nothing else is read.
int64_t vocab_of_data(const DataSection& spec);

// Writes samples into batches; train and validation differ only in what a sample index stands for. A sample is, by
// data.sampling,
//   packed     a window of seq_len tokens of the stream, wherever documents begin and end
//   documents  one document a row, filled up with end-of-text inputs and ignored targets; of preferences a pair of rows
class Sampler {
 public:
  virtual ~Sampler() = default;

  // Fills `batch` with the samples of global indices [first, first + n). Thread-safe; reuses the batch's memory.
  virtual void fill(uint64_t first, int64_t n, Batch& batch) const = 0;

  int64_t seq_len() const { return seq_len_; }
  // Rows of a batch that a sample takes: 2 for preferences, else 1.
  int64_t rows_per_sample() const { return datasets_.front()->documents_per_sample(); }
  // The tokenizer that all datasets share.
  const Tokenizer& tokenizer() const { return datasets_.front()->tokenizer(); }
  // Highest id in any dataset.
  int64_t highest_id() const;
  // DataError when a dataset holds an id that a model with `model_vocab` entries does not have.
  void check_vocab(int64_t model_vocab) const;
  const std::vector<std::unique_ptr<Dataset>>& datasets() const { return datasets_; }

 protected:
  // DataError unless all datasets have one tokenizer; ConfigError when spec contradicts itself.
  Sampler(const DataSection& spec, std::vector<std::unique_ptr<Dataset>> datasets);

  // A stretch of a dataset's stream, at most seq_len + 1 tokens; `lead`: an end-of-text token goes before it.
  struct Stretch {
    int dataset;
    uint64_t begin, tokens;
    bool lead = false;
  };
  // Row `row` of the batch: each token is the target of the one before it. Short stretches are filled up with
  // end-of-text inputs and ignored targets. A target is ignored too where the loss mask says so and, with
  // mask_documents, where it begins a document.
  void write_row(const Stretch& stretch, int64_t row, Batch& batch) const;
  // Makes room for n samples.
  void start(int64_t n, Batch& batch) const;
  // The rows of sample i of the batch, all with this sample id: one stretch, or, sampling documents, those from
  // `document` on.
  void write_window(const Stretch& stretch, int64_t i, uint64_t id, Batch& batch) const;
  void write_documents(int dataset, uint64_t document, int64_t i, uint64_t id, Batch& batch) const;

  int64_t seq_len_;
  bool mask_documents_, reset_positions_;
  std::vector<std::unique_ptr<Dataset>> datasets_;
  std::vector<DocumentSamples> documents_;  // of each dataset when documents are sampled, else none
  std::vector<int32_t> token_bytes_;        // length of each token's text
};

// Training samples without end. Documents: every one once an epoch. Packed: a dataset of N tokens has (N-1)/T windows
// an epoch, neighbours sharing one token (the last target of one is the first input of the next); each epoch visits
// every window once, in an order keyed by (seed, dataset, epoch), and shifts all windows by an epoch's offset so that
// no tail of the stream is left out for good.
class TrainSampler : public Sampler {
 public:
  // Opens the training split of every dataset. DataError when one has too few tokens for a sample.
  TrainSampler(const DataSection& spec, uint64_t seed, const OpenOptions& options = {});

  void fill(uint64_t first, int64_t n, Batch& batch) const override;

  struct Place {
    int dataset;           // index into datasets()
    uint64_t epoch;        // of that dataset
    uint64_t first_token;  // of the window or document, in the dataset's stream
    uint64_t document;     // the (first) one, when documents are sampled
  };
  // Where global sample g lies.
  Place place(uint64_t g) const;
  // Samples in one epoch of a dataset.
  uint64_t epoch_samples(int dataset) const;
  // Sampling documents: samples [first, first + n) of a dataset in the order in which they lie there, and the (first)
  // document of one of them.
  void fill_in_order(int dataset, uint64_t first, int64_t n, Batch& batch) const;
  uint64_t document_in_order(int dataset, uint64_t sample) const;

 private:
  uint64_t seed_;
  bool shuffle_;
  Mixture mixture_;
};

// Held-out samples in their own order: the documents one by one, or consecutive windows in which every token of the
// split is a target exactly once, so that sums over all samples are exact. The first token of the stream is predicted
// from the end-of-text token, which stands before every document; the last window is padded with end-of-text inputs and
// ignored targets. With mask_documents the first token of a document is no target (nothing of its document comes before
// it).
class ValidationSampler : public Sampler {
 public:
  // `validation` of the spec if given (all its documents: of a prepared folder the training split, then the validation
  // split), else the held-out splits of the training folders. limit > 0: that many samples, evenly spaced over all.
  // DataError when there is nothing.
  ValidationSampler(const DataSection& spec, int64_t limit, const OpenOptions& options = {});

  // Samples there are (0 < size() <= limit when limit > 0).
  int64_t size() const { return size_; }
  // [first, first + n) must lie in [0, size()).
  void fill(uint64_t first, int64_t n, Batch& batch) const override;

 private:
  std::vector<uint64_t> first_sample_;  // of each dataset, and the total last
  int64_t size_ = 0;
};

}  // namespace fp
