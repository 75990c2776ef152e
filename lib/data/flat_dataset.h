// llm.c and nanoGPT .bin files: nothing but token ids; documents are told apart by the token between them.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "data/dataset.h"

namespace fp {

// What the header of an llm.c token file says (256 int32: magic, version, tokens).
struct LlmcHeader {
  TokenType type;   // u16: magic 20240520, version 1 (GPT-2) | u32: magic 20240801, version 7 (Llama 3)
  uint64_t tokens;  // these follow, to the very end of the file

  static constexpr size_t kBytes = 1024;
  static constexpr int32_t kMagic16 = 20240520, kVersion16 = 1, kMagic32 = 20240801, kVersion32 = 7;
};
// Checks a file's header, and that its size fits; DataError naming `where` and what is wrong.
LlmcHeader read_llmc_header(const ByteReader& file, const std::string& where);
// Whether the first file that `pattern` stands for begins with one of the magic numbers.
bool is_llmc(const std::string& pattern);
// The token in front of every document of an llm.c file: <|begin_of_text|> where the tokenizer has it (Llama 3), else
// its end-of-text token.
int32_t llmc_separator(const Tokenizer& tokenizer);

class FlatDataset : public Dataset {
 public:
  enum class Kind {
    llmc,    // documents are preceded by llmc_separator()
    nanogpt  // raw u16, no header; documents are followed by the end-of-text token
  };
  // One file, or all that match the pattern, in the order of their names, as one stream. ConfigError when the
  // tokenizer's ids do not fit the format, DataError for bad files.
  FlatDataset(const std::string& pattern, Kind kind, std::shared_ptr<const Tokenizer> tokenizer);

  // What stands before the first separator or after the last one is a document too.
  uint64_t documents() const override;
  std::pair<uint64_t, uint64_t> document(uint64_t index) const override;

 private:
  void find_documents() const;

  mutable std::once_flag found_;
  mutable std::vector<uint64_t> bounds_;  // where documents begin, and the end
};

}  // namespace fp
