#include "data/sampling/sampler.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/utf8.h"
#include "data/sampling/permutation.h"
#include "io/filesystem.h"

namespace fp {
namespace {

// A counter value that no round of Permutation uses.
constexpr uint32_t kShiftRound = 0xFF;
constexpr size_t kMostParts = 64;  // of a path

std::shared_ptr<const Tokenizer> tokenizer_of(const DataSection& spec) {
  if (spec.tokenizer.empty()) return nullptr;
  return load_tokenizer(spec.tokenizer);
}

std::vector<std::unique_ptr<Dataset>> open_all(const DataSection& spec, Split split, const OpenOptions& options) {
  const auto tokenizer = tokenizer_of(spec);
  std::vector<std::unique_ptr<Dataset>> datasets;
  for (const DatasetSpec& d : spec.train)
    if (auto dataset = open_dataset({d.path, d.format, tokenizer}, split, options))
      datasets.push_back(std::move(dataset));
  return datasets;
}

std::vector<double> weights_of(const DataSection& spec) {
  std::vector<double> weights;
  for (const DatasetSpec& d : spec.train) weights.push_back(d.weight);
  return weights;
}

bool shares_a_file(const std::string& a, const std::string& b) {
  const auto files = [](const std::string& path) {
    const std::vector<std::filesystem::path> found = matching_files(path);
    return found.empty() ? matching_files(path + ".idx") : found;
  };
  std::error_code error;
  const std::vector<std::filesystem::path> of_b = files(b);
  for (const std::filesystem::path& file : files(a))
    for (const std::filesystem::path& other : of_b)
      if (std::filesystem::equivalent(file, other, error) && !error) return true;
  return false;
}

// `named` is all of data.validation, of which nothing is held out.
void require_not_trained_on(const DataSection& spec, const Dataset& named) {
  for (size_t i = 0; i < spec.train.size(); ++i) {
    const DatasetSpec& d = spec.train[i];
    const auto trained =
        open_dataset({d.path, d.format, tokenizer_of(spec)}, Split::train, OpenOptions{Verify::nothing});
    if (trained->identity() == named.identity() || shares_a_file(d.path, spec.validation))
      throw ConfigError(
          fmt::format("data.validation: {} holds nothing out and is also trained on (data.train[{}].path: {}): its "
                      "loss would not be "
                      "that of held-out text; name another dataset, or prepare it with --validation-fraction above 0",
                      spec.validation, i, d.path));
  }
}

std::unique_ptr<Dataset> open_named_validation(const DataSection& spec, const OpenOptions& options) {
  const DatasetSource source{spec.validation, spec.validation_format, tokenizer_of(spec)};
  if (auto held_out = open_dataset(source, Split::validation, options); held_out && held_out->tokens() > 0)
    return held_out;
  auto all = open_dataset(source, Split::train, options);
  if (all->tokens() == 0) throw DataError(fmt::format("data.validation: {} holds no text", spec.validation));
  require_not_trained_on(spec, *all);
  return all;
}

std::vector<std::unique_ptr<Dataset>> open_validation(const DataSection& spec, const OpenOptions& options) {
  std::vector<std::unique_ptr<Dataset>> datasets;
  if (spec.validation.empty())
    datasets = open_all(spec, Split::validation, options);
  else
    datasets.push_back(open_named_validation(spec, options));
  std::erase_if(datasets, [](const auto& d) { return d->tokens() == 0; });
  if (datasets.empty())
    throw DataError(
        "no held-out text: the training datasets have no validation split; prepare them with --validation-fraction "
        "above 0, or name a dataset in data.validation");
  return datasets;
}

// Returns the last `parts` parts of a path, with characters that JSON would escape replaced.
std::string end_of_path(const std::string& path, size_t parts) {
  std::vector<std::string> all;
  for (const std::filesystem::path& part : std::filesystem::path(path).lexically_normal())
    if (!part.empty()) all.push_back(part.string());
  std::string text;
  for (size_t i = all.size() > parts ? all.size() - parts : 0; i < all.size(); ++i)
    text += (text.empty() || text.ends_with('/') ? "" : "/") + all[i];
  const bool well_formed = utf8_valid_prefix(text) == text.size();
  for (char& c : text)
    if (c == '"' || c == '\\' || static_cast<uint8_t>(c) < 0x20 || c == 0x7f || (!well_formed && (c & 0x80) != 0))
      c = '_';
  return text.empty() ? path : text;
}

}  // namespace

int64_t vocab_of_data(const DataSection& spec) {
  if (spec.train.empty()) throw ConfigError("data.train: name at least one dataset");
  const DatasetSpec& d = spec.train.front();
  const OpenOptions options{Verify::nothing};
  return open_dataset({d.path, d.format, tokenizer_of(spec)}, Split::train, options)->tokenizer().vocab_size();
}

Sampler::Sampler(const DataSection& spec, std::vector<std::unique_ptr<Dataset>> datasets)
    : seq_len_(spec.seq_len),
      mask_documents_(spec.mask_documents),
      reset_positions_(spec.reset_positions),
      datasets_(std::move(datasets)) {
  if (datasets_.empty()) throw ConfigError("data.train: name at least one dataset");
  if (seq_len_ < 1) throw ConfigError(fmt::format("data.seq_len: {}: legal: 1 or more", seq_len_));
  if (reset_positions_ && !mask_documents_)
    throw ConfigError("data.reset_positions: true needs data.mask_documents: true");
  for (const auto& d : datasets_)
    if (d->tokenizer().hash() != tokenizer().hash())
      throw DataError(fmt::format("{} and {} have different tokenizers; prepare them with one",
                                  datasets_.front()->name(), d->name()));
  for (const auto& d : datasets_)
    if (d->documents_per_sample() != rows_per_sample())
      throw ConfigError(fmt::format("{} and {}: preferences and other data cannot be mixed in one run",
                                    datasets_.front()->name(), d->name()));
  if (spec.sampling == Sampling::documents)
    for (const auto& d : datasets_) documents_.emplace_back(*d, seq_len_, spec.long_documents);
  else if (rows_per_sample() > 1)
    throw ConfigError(
        fmt::format("{}: holds preferences, whose pairs only data.sampling: documents keeps together; it is {}",
                    datasets_.front()->name(), spec.sampling));
  for (int32_t id = 0; id < tokenizer().vocab_size(); ++id)
    token_bytes_.push_back(tokenizer().is_id(id) ? static_cast<int32_t>(tokenizer().bytes_of(id).size()) : 0);
}

std::vector<std::string> Sampler::labels() const {
  std::vector<std::string> labels;
  for (size_t parts = 1;; ++parts) {
    labels.clear();
    for (const auto& d : datasets_) labels.push_back(end_of_path(d->name(), parts));
    if (std::set(labels.begin(), labels.end()).size() == labels.size()) return labels;
    if (parts > kMostParts) break;
  }
  for (size_t i = 0; i < labels.size(); ++i) labels[i] += fmt::format(" ({})", i);  // one folder, written in two ways
  return labels;
}

int64_t Sampler::highest_id() const {
  int64_t highest = 0;
  for (const auto& d : datasets_) highest = std::max(highest, d->highest_id());
  return highest;
}

void Sampler::check_vocab(int64_t model_vocab) const {
  for (const auto& d : datasets_)
    if (d->highest_id() >= model_vocab)
      throw DataError(
          fmt::format("{}: {} token id {}, but the model's vocabulary ends at {} (model.vocab: {}; the tokenizer of "
                      "the data has {} ids). A larger model.vocab is legal, also beside model.init_from",
                      d->name(), d->format() == "prepared" ? "holds" : "may hold", d->highest_id(), model_vocab - 1,
                      model_vocab, d->tokenizer().vocab_size()));
}

void Sampler::write_row(const TokenRange& range, int64_t row, Batch& batch) const {
  const Dataset& dataset = *datasets_[static_cast<size_t>(range.dataset)];
  const auto length = static_cast<size_t>(seq_len_), lead = size_t{range.lead ? 1U : 0U};
  const size_t filled = lead + range.tokens;
  FP_CHECK(filled <= length + 1, "{} tokens in a row of {}", filled, length);
  std::vector<int32_t> window(length + 1, tokenizer().eot()), loss_mask(length + 1, 0);
  std::vector<uint8_t> starts(length + 1, 0);
  const auto tokens = std::span(window).subspan(lead, range.tokens);
  dataset.read(range.begin, tokens);
  dataset.read_loss_mask(range.begin, std::span(loss_mask).subspan(lead, range.tokens));
  if (mask_documents_) {
    dataset.mark_document_starts(range.begin, tokens, std::span(starts).subspan(lead, range.tokens));
    if (range.lead) starts[1] = 1;
  }

  const auto at = static_cast<size_t>(row) * length;
  int32_t start = 0;
  for (size_t t = 0; t < length; ++t) {
    if (starts[t]) start = static_cast<int32_t>(t);
    const bool counts = t + 1 < filled && loss_mask[t + 1] && !starts[t + 1];
    const int32_t target = counts ? window[t + 1] : kIgnoredTarget;
    batch.tokens[at + t] = window[t];
    batch.targets[at + t] = target;
    batch.doc_start[at + t] = start;
    batch.positions[at + t] = static_cast<int32_t>(t) - (reset_positions_ ? start : 0);
    if (counts) batch.target_bytes += token_bytes_[static_cast<size_t>(target)];
  }
}

void Sampler::resize(int64_t n, Batch& batch) const { batch.resize(n, seq_len_, rows_per_sample()); }

void Sampler::write_window(const TokenRange& range, int64_t i, uint64_t id, Batch& batch) const {
  write_row(range, i, batch);
  batch.sample_ids[static_cast<size_t>(i)] = id;
}

void Sampler::write_documents(int dataset, uint64_t document, int64_t i, uint64_t id, Batch& batch) const {
  for (int64_t r = 0; r < rows_per_sample(); ++r) {
    const auto [begin, end] = datasets_[static_cast<size_t>(dataset)]->document(document + static_cast<uint64_t>(r));
    const int64_t row = i * rows_per_sample() + r;
    write_row({dataset, begin, std::min(end - begin, static_cast<uint64_t>(seq_len_) + 1)}, row, batch);
    batch.sample_ids[static_cast<size_t>(row)] = id;
  }
}

TrainSampler::TrainSampler(const DataSection& spec, uint64_t seed, const OpenOptions& options)
    : Sampler(spec, open_all(spec, Split::train, options)),
      seed_(seed),
      shuffle_(spec.shuffle),
      mixture_(weights_of(spec)) {
  for (const auto& d : datasets_)
    if (documents_.empty() && d->tokens() < static_cast<uint64_t>(seq_len_) + 1)
      throw DataError(
          fmt::format("{}: its training split has {} tokens, but one sample of data.seq_len: {} needs {}; use more "
                      "text or a shorter seq_len",
                      d->name(), d->tokens(), seq_len_, seq_len_ + 1));
}

uint64_t TrainSampler::epoch_samples(int dataset) const {
  const auto d = static_cast<size_t>(dataset);
  return documents_.empty() ? (datasets_[d]->tokens() - 1) / static_cast<uint64_t>(seq_len_) : documents_[d].size();
}

std::vector<double> TrainSampler::epochs(uint64_t samples) const {
  std::vector<double> epochs;
  for (const uint64_t n : mixture_.counts(samples))
    epochs.push_back(static_cast<double>(n) / static_cast<double>(epoch_samples(static_cast<int>(epochs.size()))));
  return epochs;
}

TrainSampler::Place TrainSampler::place(uint64_t g) const {
  const Mixture::Item item = mixture_.at(g);
  const uint64_t n = epoch_samples(item.dataset), epoch = item.index / n;
  const auto length = static_cast<uint64_t>(seq_len_);
  const auto stream = static_cast<uint32_t>(item.dataset);
  const Philox::Key key = Philox::key(seed_, Purpose::data_order);
  const uint64_t i = shuffle_ ? Permutation(n, key, stream, epoch)(item.index % n) : item.index % n;
  if (!documents_.empty()) {
    const uint64_t document = documents_[stream].first_document(i);
    return {item.dataset, epoch, datasets_[stream]->document(document).first, document};
  }
  if (!shuffle_) return {item.dataset, epoch, i * length, 0};
  const uint64_t spare = datasets_[stream]->tokens() - 1 - n * length;
  const auto random = Philox::block(
      {0, kShiftRound << 24 | stream, static_cast<uint32_t>(epoch), static_cast<uint32_t>(epoch >> 32)}, key);
  const uint64_t shift = (uint64_t{random[1]} << 32 | random[0]) % (spare + 1);
  return {item.dataset, epoch, i * length + shift, 0};
}

void TrainSampler::fill_in_order(int dataset, uint64_t first, int64_t n, Batch& batch) const {
  resize(n, batch);
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t sample = first + static_cast<uint64_t>(i);
    write_documents(dataset, document_in_order(dataset, sample), i, sample, batch);
  }
}

uint64_t TrainSampler::document_in_order(int dataset, uint64_t sample) const {
  return documents_[static_cast<size_t>(dataset)].first_document(sample);
}

void TrainSampler::fill(uint64_t first, int64_t n, Batch& batch) const {
  resize(n, batch);
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t g = first + static_cast<uint64_t>(i);
    const Place where = place(g);
    if (documents_.empty())
      write_window({where.dataset, where.first_token, static_cast<uint64_t>(seq_len_) + 1}, i, g, batch);
    else
      write_documents(where.dataset, where.document, i, g, batch);
  }
}

ValidationSampler::ValidationSampler(const DataSection& spec, int64_t limit, const OpenOptions& options, int64_t stride)
    : Sampler(spec, open_validation(spec, options)), stride_(stride > 0 ? stride : seq_len_) {
  if (limit < 0) throw ConfigError(fmt::format("eval.samples: {}: legal: 0 (all) or more", limit));
  if (stride > 0 && !documents_.empty())
    throw ConfigError("a stride of samples needs windows, but data.sampling is documents; legal: packed");
  if (stride < 0 || stride > seq_len_)
    throw ConfigError(fmt::format("a stride of {} tokens: legal: 1 to data.seq_len = {}", stride, seq_len_));
  FP_CHECK(limit == 0 || stride_ == seq_len_, "{} of the samples that overlap", limit);
  first_sample_.push_back(0);
  first_passage_.push_back(0);
  for (size_t d = 0; d < datasets_.size(); ++d) {
    const auto pieces_of = [&](int64_t length) {
      const auto n = static_cast<uint64_t>(length);
      return (datasets_[d]->tokens() + n - 1) / n;
    };
    first_sample_.push_back(first_sample_.back() + (documents_.empty() ? pieces_of(stride_) : documents_[d].size()));
    first_passage_.push_back(first_passage_.back() + pieces_of(seq_len_));
  }
  const auto all = static_cast<int64_t>(first_sample_.back());
  size_ = limit > 0 ? std::min(limit, all) : all;
}

// Returns the index among all held-out samples of the evenly spaced sample: sample * all / size, without overflow.
uint64_t ValidationSampler::place(uint64_t sample) const {
  const uint64_t all = first_sample_.back(), size = static_cast<uint64_t>(size_);
  return all / size * sample + all % size * sample / size;
}

ValidationSampler::Place ValidationSampler::place_in_dataset(uint64_t sample) const {
  const uint64_t at = place(sample);
  const auto after = std::upper_bound(first_sample_.begin(), first_sample_.end(), at);
  const auto d = static_cast<size_t>(after - first_sample_.begin()) - 1;
  return {d, at - first_sample_[d]};
}

ValidationSampler::Target ValidationSampler::target(uint64_t sample, int64_t position) const {
  if (!documents_.empty()) return {static_cast<int64_t>(sample), position};
  const auto [d, index] = place_in_dataset(sample);
  const int64_t offset = static_cast<int64_t>(index) * stride_ + position;
  if (!overlap()) return {static_cast<int64_t>(sample), offset};
  return {static_cast<int64_t>(first_passage_[d]) + offset / seq_len_, offset};
}

std::pair<int64_t, int64_t> ValidationSampler::samples_of(size_t dataset) const {
  const auto first_from = [&](uint64_t place_of_first) {
    int64_t low = 0, high = size_;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (place(static_cast<uint64_t>(middle)) >= place_of_first)
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  };
  return {first_from(first_sample_[dataset]), first_from(first_sample_[dataset + 1])};
}

void ValidationSampler::fill(uint64_t first, int64_t n, Batch& batch) const {
  FP_CHECK(first + static_cast<uint64_t>(n) <= static_cast<uint64_t>(size_), "validation samples [{}, {}) of {}", first,
           first + static_cast<uint64_t>(n), size_);
  resize(n, batch);
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t sample = first + static_cast<uint64_t>(i);
    const auto [d, index] = place_in_dataset(sample);
    if (!documents_.empty()) {
      write_documents(static_cast<int>(d), documents_[d].first_document(index), i, sample, batch);
      continue;
    }
    // The first window is preceded by an end-of-text token; every other window by the last token of the one before.
    const uint64_t begin = index * static_cast<uint64_t>(stride_);
    const uint64_t valid = std::min(static_cast<uint64_t>(seq_len_), datasets_[d]->tokens() - begin);
    const bool lead = begin == 0;
    write_window({static_cast<int>(d), lead ? 0 : begin - 1, lead ? valid : valid + 1, lead}, i, sample, batch);
  }
}

}  // namespace fp
