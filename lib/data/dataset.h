// One split of one prepared folder, memory-mapped: a stream of tokens and the places where its documents begin.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/filesystem.h"
#include "data/manifest.h"
#include "data/tokenizer.h"

namespace fp {

class Dataset {
 public:
  // Opens and verifies: the manifest, the tokenizer, and size and hash of every file of the split, on all threads.
  // DataError names the file that is missing, truncated or altered; an empty split is fine.
  Dataset(const std::filesystem::path& folder, Split split);

  const std::filesystem::path& folder() const { return folder_; }
  Split split() const { return split_; }
  const Manifest& manifest() const { return manifest_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  uint64_t documents() const { return record().documents; }
  uint64_t tokens() const { return record().tokens; }
  uint64_t text_bytes() const { return record().text_bytes; }
  // Bytes of text that one token stands for on average, end-of-text tokens counted as tokens.
  double bytes_per_token() const;

  // Copies tokens [begin, begin + out.size()) of the stream; the range must lie inside it.
  void read(uint64_t begin, std::span<int32_t> out) const;
  // Token range [first, last) of a document, its end-of-text token included.
  std::pair<uint64_t, uint64_t> document(uint64_t index) const;

 private:
  void check_counts() const;
  void open_files();
  const SplitRecord& record() const { return manifest_.split(split_); }

  std::filesystem::path folder_;
  Split split_;
  Manifest manifest_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<MappedFile> shards_;
  MappedFile index_;
};

}  // namespace fp
