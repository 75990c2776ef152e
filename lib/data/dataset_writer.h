// Datasets as `data convert` writes them, a document after the other.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "data/tokenizer.h"

namespace fp {

class DatasetWriter {
 public:
  virtual ~DatasetWriter() = default;  // what is not finished disappears
  // `tokens`: the document as it stands in the stream; `body`: without the token that separates documents.
  // ConfigError when the format cannot hold an id or so many tokens.
  virtual void append(std::span<const int32_t> tokens, std::span<const int32_t> body) = 0;
  // Puts the files in place.
  virtual void finish() = 0;
  // Tokens written so far.
  virtual uint64_t tokens() const = 0;
};

// OUT.bin and OUT.idx (data/megatron.h).
std::unique_ptr<DatasetWriter> make_megatron_writer(const std::filesystem::path& out, const Tokenizer& tokenizer);
// One llm.c file: documents preceded by llmc_separator().
std::unique_ptr<DatasetWriter> make_llmc_writer(const std::filesystem::path& out, const Tokenizer& tokenizer);
// One nanoGPT file: documents followed by the end-of-text token.
std::unique_ptr<DatasetWriter> make_nanogpt_writer(const std::filesystem::path& out, const Tokenizer& tokenizer);
// A prepared folder whose training split holds all documents; `source` names what it was made from.
std::unique_ptr<DatasetWriter> make_prepared_writer(const std::filesystem::path& out, const Tokenizer& tokenizer,
                                                    const std::string& source);

}  // namespace fp
