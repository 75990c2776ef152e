// `fptrain data convert`: writes a dataset of any readable format in another format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "data/formats/dataset.h"

namespace fp {

struct ConvertOptions {
  DatasetSource source;
  Split split = Split::train;
  // The format to write:
  //   megatron: OUT.bin and OUT.idx, u16 when the vocabulary is under 65500, else i32; documents unchanged, each one
  //             sequence
  //   prepared: the folder OUT, all of it training text
  //   llmc:     the file OUT, of the GPT-2 kind when 16 bits hold the vocabulary, else of the Llama 3 kind
  //   nanogpt:  the file OUT
  // In the last three the token between documents is placed where the format has it.
  std::string to;
  std::filesystem::path out;
  bool overwrite = false;
};

struct ConvertResult {
  uint64_t documents = 0;
  uint64_t tokens = 0;  // number of tokens written
};

// Converts a dataset as a stream: only one document is in memory at a time. The result appears complete or not at all.
// Throws ConfigError for invalid options, also for an output that is a part of the source or contains one, and for what
// the format cannot represent (ids over 16 bits, a loss mask), DataError for an invalid source.
ConvertResult convert(const ConvertOptions& options);

// Returns the absolute path of the prepared folder to write from `source`. Throws ConfigError if it exists, unless
// `overwrite` is set and it is a prepared folder, and if it is a part of the source or contains one.
std::filesystem::path check_prepared_target(const std::filesystem::path& out, bool overwrite, const DatasetSource&);

}  // namespace fp
