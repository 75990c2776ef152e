#include "data/tokenizer/bpe_tokenizer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "data/tokenizer/word_cache.h"

namespace fp {
namespace {

// Names that published byte-level tokenizers give the token that ends a document, in order of preference.
constexpr std::array kEndOfText = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"};

// Finds written-out added tokens: leftmost, longest first.
class AddedTokenFinder {
 public:
  void add(const AddedToken& token) {
    tokens_.push_back(&token);
    starts_[static_cast<uint8_t>(token.content[0])] = true;
    std::stable_sort(tokens_.begin(), tokens_.end(),
                     [](const auto* a, const auto* b) { return a->content.size() > b->content.size(); });
  }
  bool empty() const { return tokens_.empty(); }
  // Position and token of the first one at or after `from`; null when there is none.
  std::pair<size_t, const AddedToken*> find(std::string_view text, size_t from) const {
    for (size_t i = from; i < text.size(); ++i) {
      if (!starts_[static_cast<uint8_t>(text[i])]) continue;
      for (const AddedToken* token : tokens_)
        if (text.substr(i, token->content.size()) == token->content) return {i, token};
    }
    return {text.size(), nullptr};
  }

 private:
  std::vector<const AddedToken*> tokens_;
  std::array<bool, 256> starts_{};
};

std::array<int32_t, 256> byte_ids_of(const BpeDefinition& definition, const std::string& where) {
  std::array<int32_t, 256> ids;
  ids.fill(-1);
  std::vector<bool> added(definition.tokens.size());
  for (const AddedToken& token : definition.added) added[static_cast<size_t>(token.id)] = true;
  for (size_t id = 0; id < definition.tokens.size(); ++id)
    if (const auto& token = definition.tokens[id]; token && token->size() == 1 && !added[id])
      ids[static_cast<uint8_t>((*token)[0])] = static_cast<int32_t>(id);
  for (size_t b = 0; b < 256; ++b)
    if (ids[b] < 0)
      throw DataError(fmt::format(
          "{}: model.vocab has no token for the single byte {:#04x}; a byte-level vocabulary holds all 256", where, b));
  return ids;
}

int32_t find_eot(const BpeDefinition& definition, const std::string& where) {
  for (const char* name : kEndOfText)
    for (const AddedToken& token : definition.added)
      if (token.content == name) return token.id;
  throw DataError(fmt::format("{}: added_tokens holds no end-of-text token; one of {} must be there", where,
                              fmt::join(kEndOfText, ", ")));
}

}  // namespace

class BpeTokenizer::WordEncoder : public Encoder {
 public:
  WordEncoder(const BpeTokenizer& tokenizer, SpecialText special)
      : tokenizer_(tokenizer), splitter_(tokenizer.pattern_.get()) {
    if (special == SpecialText::as_token)
      for (const AddedToken& token : tokenizer.definition_.added) (token.normalized ? late_ : early_).add(token);
  }

  void append(std::string_view text, std::vector<int32_t>& ids) override {
    around(early_, text, ids, [&](std::string_view segment) {
      around(late_, segment, ids, [&](std::string_view plain) { append_plain(plain, ids); });
    });
  }

 private:
  // Emits the added tokens found in `text` and gives f what lies between them.
  template <class F>
  static void around(const AddedTokenFinder& finder, std::string_view text, std::vector<int32_t>& ids, F&& f) {
    if (finder.empty()) return f(text);
    for (size_t at = 0; at < text.size();) {
      const auto [found, token] = finder.find(text, at);
      if (found > at) f(text.substr(at, found - at));
      if (!token) return;
      ids.push_back(token->id);
      at = found + token->content.size();
    }
  }

  void append_plain(std::string_view text, std::vector<int32_t>& ids) {
    splitter_.for_each(text, [&](std::string_view word) {
      const auto cached = cache_.find(word);
      if (!cached.empty()) {
        ids.insert(ids.end(), cached.begin(), cached.end());
        return;
      }
      const size_t before = ids.size();
      tokenizer_.model_.encode(word, scratch_, ids);
      cache_.put(word, std::span(ids).subspan(before));
    });
  }

  const BpeTokenizer& tokenizer_;
  PieceSplitter splitter_;
  AddedTokenFinder early_, late_;
  BpeModel::Scratch scratch_;
  WordCache cache_;
};

BpeTokenizer::BpeTokenizer(BpeDefinition definition, std::string serialized, const std::string& where)
    : Tokenizer(std::move(serialized)), definition_(std::move(definition)) {
  model_ = BpeModel(byte_ids_of(definition_, where), definition_.merges);
  if (definition_.pattern) pattern_ = std::make_unique<Regex>(*definition_.pattern);
  eot_ = find_eot(definition_, where);
  for (const AddedToken& token : definition_.added)
    if (token.special) definition_.tokens[static_cast<size_t>(token.id)] = "";
}

BpeTokenizer::~BpeTokenizer() = default;

std::unique_ptr<Encoder> BpeTokenizer::make_encoder(SpecialText special) const {
  return std::make_unique<WordEncoder>(*this, special);
}

std::optional<int32_t> BpeTokenizer::special_id(std::string_view content) const {
  for (const AddedToken& token : definition_.added)
    if (token.content == content) return token.id;
  return std::nullopt;
}

bool BpeTokenizer::is_id(int32_t id) const {
  return id >= 0 && id < vocab_size() && definition_.tokens[static_cast<size_t>(id)].has_value();
}

std::string_view BpeTokenizer::bytes_of(int32_t id) const {
  if (!is_id(id)) throw DataError(fmt::format("token id {} is not in the vocabulary of {} ids", id, vocab_size()));
  return *definition_.tokens[static_cast<size_t>(id)];
}

}  // namespace fp
