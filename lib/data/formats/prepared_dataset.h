// Reads one split of a folder made by `fptrain data prepare` (docs/data-format.md).
#pragma once

#include <vector>

#include "data/formats/dataset.h"

namespace fp {

class PreparedDataset : public Dataset {
 public:
  // Opens the folder and verifies the manifest, the tokenizer and, as `options` say, the files of the split, on all
  // threads. Throws DataError naming the file that is missing, truncated or altered; the split may be empty. Where
  // hashes of each MiB are known, a later change is detected when it is read: then read(), document() and the like
  // throw DataError.
  PreparedDataset(const std::filesystem::path& folder, Split split, const OpenOptions& options = {});

  Split split() const { return split_; }
  const Manifest& manifest() const { return manifest_; }
  uint64_t documents() const override { return record().documents; }
  std::pair<uint64_t, uint64_t> document(uint64_t index) const override;
  int documents_per_sample() const override { return manifest_.kind == DataKind::preferences ? 2 : 1; }
  std::optional<int32_t> end_of_message() const override;
  std::string chat_template() const override { return manifest_.chat_template; }
  uint64_t held_out_tokens() const override { return manifest_.validation.tokens; }
  uint64_t text_bytes() const { return record().text_bytes; }
  // Returns the average number of bytes of text per token, end-of-text tokens included.
  double bytes_per_token() const;

 private:
  void check_counts() const;
  void open_files(const OpenOptions& options);
  const SplitRecord& record() const { return manifest_.split(split_); }

  std::filesystem::path folder_;
  Split split_;
  Manifest manifest_;
  std::shared_ptr<const DataFile> index_;
};

}  // namespace fp
