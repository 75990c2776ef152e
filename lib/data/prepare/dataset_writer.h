// Writers of `data convert`, one per dataset format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "data/tokenizer/tokenizer.h"

namespace fp {

class DatasetWriter {
 public:
  virtual ~DatasetWriter() = default;  // without finish(), removes what was written
  // Appends a document. `tokens`: the document as it is in the stream; `body`: without the token that separates
  // documents. Throws ConfigError when the format cannot represent an id or that many tokens.
  virtual void append(std::span<const int32_t> tokens, std::span<const int32_t> body) = 0;
  // Completes the files and moves them to their final names.
  virtual void finish() = 0;
  // Returns the number of tokens written so far.
  virtual uint64_t tokens() const = 0;
};

// Writes OUT.bin and OUT.idx (data/formats/megatron.h).
std::unique_ptr<DatasetWriter> make_megatron_writer(const std::filesystem::path& out, const Tokenizer& tokenizer);
// Writes one llm.c file: documents preceded by llmc_separator().
std::unique_ptr<DatasetWriter> make_llmc_writer(const std::filesystem::path& out, const Tokenizer& tokenizer);
// Writes one nanoGPT file: documents followed by the end-of-text token.
std::unique_ptr<DatasetWriter> make_nanogpt_writer(const std::filesystem::path& out, const Tokenizer& tokenizer);
// Writes a prepared folder whose training split contains all documents; `source` names the dataset it is made from.
std::unique_ptr<DatasetWriter> make_prepared_writer(const std::filesystem::path& out, const Tokenizer& tokenizer,
                                                    const std::string& source);

}  // namespace fp
