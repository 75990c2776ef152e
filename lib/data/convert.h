// `fptrain data convert`: a dataset of any format that can be read, written in another.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "data/dataset.h"

namespace fp {

struct ConvertOptions {
  DatasetSource source;
  Split split = Split::train;
  // megatron: OUT.bin and OUT.idx, u16 when the vocabulary is under 65500, else i32; documents as they stand, each one
  //           sequence
  // prepared: the folder OUT, all of it training text
  // llmc:     the file OUT, of the GPT-2 kind when 16 bits hold the vocabulary, else of the Llama 3 kind
  // nanogpt:  the file OUT
  // In the last three the token between documents is put where the format wants it.
  std::string to;
  std::filesystem::path out;
  bool overwrite = false;
};

struct ConvertResult {
  uint64_t documents = 0;
  uint64_t tokens = 0;  // written
};

// Streams: a document is held at a time. The result appears complete or not at all. ConfigError for bad options and for
// what the format cannot hold (ids over 16 bits, a loss mask), DataError for a bad source.
ConvertResult convert(const ConvertOptions& options);

}  // namespace fp
