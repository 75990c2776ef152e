// Byte-level BPE as GPT-2 defined it: a vocabulary of byte strings, a ranked list of merges, a pattern that cuts text
// into words, and added tokens that are recognised before anything else.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/pretokenizer.h"

namespace fp {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool special = false;     // stands for no text when decoded
  bool normalized = false;  // looked for after the others
};

// What a tokenizer.json of this kind says.
struct BpeDefinition {
  std::vector<std::optional<std::string>> tokens;  // by id: the bytes of the token; nothing where there is no such id
  std::vector<Merge> merges;                       // by rank
  std::vector<AddedToken> added;
  std::optional<std::string> pattern;  // PCRE2; nothing: words are not cut
};

class BpeTokenizer : public Tokenizer {
 public:
  // Checks the definition: all 256 single bytes are tokens, ids are consistent, some added token ends a document.
  // DataError naming `where` and the field otherwise. `serialized` is kept as the file form.
  BpeTokenizer(BpeDefinition definition, std::string serialized, const std::string& where);
  ~BpeTokenizer() override;

  std::unique_ptr<Encoder> make_encoder(SpecialText special) const override;
  int32_t vocab_size() const override { return static_cast<int32_t>(definition_.tokens.size()); }
  int32_t eot() const override { return eot_; }
  std::optional<int32_t> special_id(std::string_view content) const override;
  std::string_view bytes_of(int32_t id) const override;
  bool is_id(int32_t id) const override;
  std::string_view kind() const override { return "byte-level BPE"; }
  const BpeDefinition& definition() const { return definition_; }

 private:
  class WordEncoder;

  BpeDefinition definition_;
  BpeModel model_;
  std::unique_ptr<Regex> pattern_;
  int32_t eot_ = 0;
};

}  // namespace fp
