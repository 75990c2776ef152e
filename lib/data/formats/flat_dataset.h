// Reads llm.c and nanoGPT .bin files: token ids only, with documents separated by a special token.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "data/formats/dataset.h"

namespace fp {

// The header of an llm.c token file (256 int32: magic, version, number of tokens).
struct LlmcHeader {
  TokenType type;   // u16: magic 20240520, version 1 (GPT-2) | u32: magic 20240801, version 7 (Llama 3)
  uint64_t tokens;  // number of ids that follow, up to the end of the file

  static constexpr size_t kBytes = 1024;
  static constexpr int32_t kMagic16 = 20240520, kVersion16 = 1, kMagic32 = 20240801, kVersion32 = 7;
};
// Reads the header and checks it against the size of the file. Throws DataError naming `where` and the problem.
LlmcHeader read_llmc_header(const ByteReader& file, const std::string& where);
// Returns whether the first file that matches `pattern` begins with one of the magic numbers.
bool is_llmc(const std::string& pattern);
// Returns the token that precedes every document of an llm.c file: <|begin_of_text|> where the tokenizer has it (Llama
// 3), else its end-of-text token.
int32_t llmc_separator(const Tokenizer& tokenizer);

class FlatDataset : public Dataset {
 public:
  enum class Kind {
    llmc,    // documents are preceded by llmc_separator()
    nanogpt  // raw u16, no header; documents are followed by the end-of-text token
  };
  // Opens one file, or all files that match the pattern, ordered by name, as one stream. Throws ConfigError when the
  // tokenizer's ids do not fit the format, DataError for malformed files.
  FlatDataset(const std::string& pattern, Kind kind, std::shared_ptr<const Tokenizer> tokenizer);

  // Tokens before the first separator or after the last one form a document too.
  uint64_t documents() const override;
  std::pair<uint64_t, uint64_t> document(uint64_t index) const override;

 private:
  void find_documents() const;

  mutable std::once_flag found_;
  mutable std::vector<uint64_t> bounds_;  // first token of each document, then the end
};

}  // namespace fp
