// A tokenizer that executes a TokenizerDefinition: added tokens, normalization, pre-tokenization, byte-pair encoding.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "data/tokenizer/definition.h"
#include "data/tokenizer/tokenizer.h"

namespace fp {

class BpeTokenizer : public Tokenizer {
 public:
  // Throws DataError naming `where` when two added tokens have the same id or content, or when no token ends a
  // document. `serialized` is kept as the file form.
  BpeTokenizer(TokenizerDefinition definition, std::string serialized, const std::string& where);

  std::unique_ptr<Encoder> make_encoder(SpecialText special) const override;
  int32_t vocab_size() const override { return static_cast<int32_t>(definition_.tokens.size()); }
  int32_t eot() const override { return *definition_.eot; }
  std::optional<int32_t> bos() const override { return definition_.bos; }
  std::optional<int32_t> special_id(std::string_view content) const override;
  std::string_view special_text(int32_t id) const override;
  std::span<const int32_t> prefix_ids() const override { return definition_.prefix_ids; }
  std::span<const int32_t> suffix_ids() const override { return definition_.suffix_ids; }
  std::string_view bytes_of(int32_t id) const override;
  std::string_view dummy_prefix() const override { return definition_.dummy_prefix; }
  bool is_id(int32_t id) const override;
  std::string_view kind() const override { return definition_.kind; }
  const TokenizerDefinition& definition() const { return definition_; }

 private:
  class TextEncoder;

  bool mark_only_begins_words() const;

  TokenizerDefinition definition_;
  BpeModel model_;
  StringMap<int32_t> special_ids_;
  std::unordered_map<int32_t, std::string> special_texts_;
  AddedTokenFinder early_, late_;  // before and after normalization
  bool cut_at_marks_;              // no merge crosses the beginning of a run of kSpaceMark
};

}  // namespace fp
