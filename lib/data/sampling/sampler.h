// Samplers determine the tokens of each sample. Training order is a pure function of (seed, epoch, global sample
// index): the only state of the loader is the number of samples consumed, and sample g is the same for every batch size
// and number of ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "config/run_spec.h"
#include "data/formats/dataset.h"
#include "data/sampling/batch.h"
#include "data/sampling/document_samples.h"
#include "data/sampling/mixture.h"

namespace fp {

// Returns the vocabulary size of the tokenizer of a run's data. Reads nothing else of the data.
int64_t vocab_of_data(const DataSection& spec);

// Writes samples into batches. Training and validation differ only in the meaning of a sample index. A sample is, by
// data.sampling,
//   packed     a window of seq_len tokens of the stream, regardless of document boundaries
//   documents  one document per row, padded with end-of-text inputs and ignored targets; for preferences a pair of rows
class Sampler {
 public:
  virtual ~Sampler() = default;

  // Fills `batch` with the samples of global indices [first, first + n). Thread-safe; reuses the batch's memory.
  virtual void fill(uint64_t first, int64_t n, Batch& batch) const = 0;

  int64_t seq_len() const { return seq_len_; }
  // Returns the number of rows of a sample: 2 for preferences, else 1.
  int64_t rows_per_sample() const { return datasets_.front()->documents_per_sample(); }
  // Returns the tokenizer, which all datasets share.
  const Tokenizer& tokenizer() const { return datasets_.front()->tokenizer(); }
  // Returns the highest token id of all datasets (Dataset::highest_id()).
  int64_t highest_id() const;
  // Throws DataError when the ids of a dataset exceed a model's vocabulary of `model_vocab` entries.
  void check_vocab(int64_t model_vocab) const;
  const std::vector<std::unique_ptr<Dataset>>& datasets() const { return datasets_; }
  // Returns a short name of each dataset, without characters that JSON escapes: the end of its path, as long as needed
  // to tell them apart.
  std::vector<std::string> labels() const;

 protected:
  // Throws DataError when the datasets have different tokenizers, and ConfigError when the spec is contradictory.
  Sampler(const DataSection& spec, std::vector<std::unique_ptr<Dataset>> datasets);

  // A range of a dataset's stream of at most seq_len + 1 tokens. `lead`: an end-of-text token precedes it in the row.
  struct TokenRange {
    int dataset;
    uint64_t begin, tokens;
    bool lead = false;
  };
  // Writes row `row` of the batch, in which each token is the target of the one before it. A short range is padded with
  // end-of-text inputs and ignored targets. A target is also ignored where the loss mask is 0 and, with mask_documents,
  // where it begins a document.
  void write_row(const TokenRange& range, int64_t row, Batch& batch) const;
  // Resizes the batch for n samples.
  void resize(int64_t n, Batch& batch) const;
  // Write the rows of sample i of the batch, all with sample id `id`: one range, or, when documents are sampled, the
  // documents from `document` on.
  void write_window(const TokenRange& range, int64_t i, uint64_t id, Batch& batch) const;
  void write_documents(int dataset, uint64_t document, int64_t i, uint64_t id, Batch& batch) const;

  int64_t seq_len_;
  bool mask_documents_, reset_positions_;
  std::vector<std::unique_ptr<Dataset>> datasets_;
  std::vector<DocumentSamples> documents_;  // for each dataset when documents are sampled, else empty
  std::vector<int32_t> token_bytes_;        // by id: bytes of the token's text
};

// An endless sequence of training samples. Documents: each epoch visits every document once. Packed: a dataset of N
// tokens has (N-1)/T windows per epoch, of which neighbours share one token (the last target of one is the first input
// of the next). Each epoch visits every window once, in an order keyed by (seed, dataset, epoch), and shifts all
// windows by an offset of that epoch, so that no tail of the stream is omitted in every epoch.
class TrainSampler : public Sampler {
 public:
  // Opens the training split of every dataset. Throws DataError when one has too few tokens for a sample.
  TrainSampler(const DataSection& spec, uint64_t seed, const OpenOptions& options = {});

  void fill(uint64_t first, int64_t n, Batch& batch) const override;

  struct Place {
    int dataset;           // index into datasets()
    uint64_t epoch;        // of that dataset
    uint64_t first_token;  // first token of the window or document, in the dataset's stream
    uint64_t document;     // the (first) document, when documents are sampled
  };
  // Returns the position of global sample g.
  Place place(uint64_t g) const;
  // Returns the number of samples in one epoch of a dataset.
  uint64_t epoch_samples(int dataset) const;
  // Returns how often the first `samples` samples go through each dataset.
  std::vector<double> epochs(uint64_t samples) const;
  // For data.sampling: documents only. Fill `batch` with samples [first, first + n) of a dataset in stored order, and
  // return the (first) document of one of them.
  void fill_in_order(int dataset, uint64_t first, int64_t n, Batch& batch) const;
  uint64_t document_in_order(int dataset, uint64_t sample) const;

 private:
  uint64_t seed_;
  bool shuffle_;
  Mixture mixture_;
};

// Held-out samples in stored order: documents one by one, or consecutive windows in which every token of the split is a
// target exactly once, so that sums over all samples are exact. With a stride of fewer tokens than a window, windows
// overlap: the target at offset o of the stream is at all positions o - i * stride of a window. The first token of the
// stream is predicted from an end-of-text token, which precedes every document; the last window is padded with
// end-of-text inputs and ignored targets. With mask_documents the first token of a document is not a target (no token
// of its document precedes it).
class ValidationSampler : public Sampler {
 public:
  // Opens `data.validation` if given, else the held-out splits of the training folders. Of data.validation it uses the
  // held-out split, or all documents if there is none; throws ConfigError if those are also trained on. limit > 0: uses
  // that many samples, evenly spaced over all. Throws DataError when there are no held-out tokens. stride > 0: windows
  // begin every that many tokens, up to seq_len; throws ConfigError if documents are sampled. Not with a limit.
  ValidationSampler(const DataSection& spec, int64_t limit, const OpenOptions& options = {}, int64_t stride = 0);

  // Number of samples (0 < size() <= limit when limit > 0).
  int64_t size() const { return size_; }
  // Returns the range [first, last) of samples that come from a dataset; empty if the limit leaves none for it.
  std::pair<int64_t, int64_t> samples_of(size_t dataset) const;
  // [first, first + n) must lie in [0, size()).
  void fill(uint64_t first, int64_t n, Batch& batch) const override;
  int64_t stride() const { return stride_; }
  // The target at a position of a sample. Passages are consecutive pieces of text, numbered from 0 to passages() - 1:
  // the samples or, where samples overlap, pieces of seq_len tokens from the beginning of a dataset on.
  struct Target {
    int64_t passage = 0, offset = 0;  // offset: in the stream of the dataset, or in the document
  };
  Target target(uint64_t sample, int64_t position) const;
  int64_t passages() const { return overlap() ? static_cast<int64_t>(first_passage_.back()) : size_; }

 private:
  // An index among all held-out samples, as a dataset and the index among its samples.
  struct Place {
    size_t dataset;
    uint64_t index;
  };
  uint64_t place(uint64_t sample) const;
  Place place_in_dataset(uint64_t sample) const;
  bool overlap() const { return stride_ < seq_len_; }

  int64_t stride_;
  std::vector<uint64_t> first_sample_, first_passage_;  // the first ones of each dataset, then the total
  int64_t size_ = 0;
};

}  // namespace fp
