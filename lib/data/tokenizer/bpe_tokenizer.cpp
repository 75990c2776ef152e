#include "data/tokenizer/bpe_tokenizer.h"

#include <algorithm>
#include <array>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "data/tokenizer/word_cache.h"

namespace fp {
namespace {

// The names of the tokens that end and begin a document in published tokenizers, in order of preference.
constexpr std::array kEndOfText = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"};
constexpr std::array kBeginOfText = {"<|begin_of_text|>", "<s>", "<bos>"};

template <size_t N>
std::optional<int32_t> find_named(const std::vector<AddedToken>& added, const std::array<const char*, N>& names) {
  for (const char* name : names)
    for (const AddedToken& token : added)
      if (token.content == name) return token.id;
  return std::nullopt;
}

// Returns whether kSpaceMark, or the space it decodes to, follows another character.
bool mark_inside(std::string_view text) {
  bool other = false;
  while (!text.empty()) {
    const bool mark = text.starts_with(kSpaceMark), space = text.starts_with(' ');
    if ((mark || space) && other) return true;
    other = other || !(mark || space);
    text.remove_prefix(mark ? kSpaceMark.size() : 1);
  }
  return false;
}

// Returns `text` with U+FFFD for each byte that belongs to no well-formed character.
std::string with_replacement_characters(std::string_view text) {
  std::string result;
  utf8_stretches(
      text, [&](std::string_view valid) { result += valid; },
      [&](std::string_view broken) {
        for (size_t i = 0; i < broken.size(); ++i) result += "\uFFFD";
      });
  return result;
}

std::string normalized(const std::vector<TextStep>& steps, std::string_view text) {
  std::string result;
  StepRunner(steps).run(text, true, [&](std::string_view piece, bool) { result += piece; });
  return result;
}

}  // namespace

class BpeTokenizer::TextEncoder : public Encoder {
 public:
  TextEncoder(const BpeTokenizer& tokenizer, SpecialText special)
      : t_(tokenizer),
        as_token_(special == SpecialText::as_token),
        bytes_(t_.definition_.rules.symbols == BpeRules::Symbols::bytes),
        normalizer_(t_.definition_.normalizer),
        pre_tokenizer_(t_.definition_.pre_tokenizer) {}

  void append(std::string_view text, std::vector<int32_t>& ids) override {
    std::string repaired;
    if (!bytes_ && utf8_valid_prefix(text) < text.size()) text = repaired = with_replacement_characters(text);
    const auto segment = [&](std::string_view part, bool at_start) { append_segment(part, at_start, ids); };
    if (as_token_)
      t_.early_.around(text, true, ids, segment);
    else
      segment(text, true);
  }

 private:
  // The steps process only well-formed text; a run of other bytes is a word of its own.
  void append_segment(std::string_view text, bool at_start, std::vector<int32_t>& ids) {
    const auto well_formed = [&](std::string_view valid) { append_valid(valid, std::exchange(at_start, false), ids); };
    utf8_stretches(text, well_formed, [&](std::string_view broken) { append_word(broken, ids); });
  }
  void append_valid(std::string_view text, bool at_start, std::vector<int32_t>& ids) {
    normalizer_.run(text, at_start, [&](std::string_view normal, bool starts) {
      const auto plain = [&](std::string_view part, bool part_starts) {
        pre_tokenizer_.run(part, part_starts, [&](std::string_view piece, bool) { append_piece(piece, ids); });
      };
      if (as_token_)
        t_.late_.around(normal, starts, ids, plain);
      else
        plain(normal, starts);
    });
  }
  void append_piece(std::string_view piece, std::vector<int32_t>& ids) {
    if (!t_.cut_at_marks_) return append_word(piece, ids);
    size_t begin = 0, at = 0;
    while (at < piece.size()) {
      while (piece.substr(at).starts_with(kSpaceMark)) at += kSpaceMark.size();
      at = std::min(piece.find(kSpaceMark, at), piece.size());
      append_word(piece.substr(begin, at - begin), ids);
      begin = at;
    }
  }
  void append_word(std::string_view word, std::vector<int32_t>& ids) {
    const auto cached = cache_.find(word);
    if (!cached.empty()) {
      ids.insert(ids.end(), cached.begin(), cached.end());
      return;
    }
    const size_t before = ids.size();
    t_.model_.encode(word, scratch_, ids);
    cache_.put(word, std::span(ids).subspan(before));
  }

  const BpeTokenizer& t_;
  bool as_token_, bytes_;
  StepRunner normalizer_, pre_tokenizer_;
  BpeModel::Scratch scratch_;
  WordCache cache_;
};

BpeTokenizer::BpeTokenizer(TokenizerDefinition definition, std::string serialized, const std::string& where)
    : Tokenizer(std::move(serialized)),
      definition_(std::move(definition)),
      model_(definition_.rules),
      cut_at_marks_(mark_only_begins_words()) {
  std::vector<bool> seen(definition_.tokens.size());
  for (const AddedToken& token : definition_.added) {
    const auto id = static_cast<size_t>(token.id);
    if (seen[id] || !special_ids_.emplace(token.content, token.id).second)
      throw DataError(fmt::format("{}: the added token {} \"{}\" is added twice", where, token.id, token.content));
    seen[id] = true;
    special_texts_.emplace(token.id, token.content);
    if (token.normalized) {
      const std::string written = normalized(definition_.normalizer, token.content);
      if (!written.empty()) late_.add(token, written);
    } else {
      early_.add(token, token.content);
    }
    if (token.special) definition_.tokens[id] = "";
  }
  if (!definition_.bos) definition_.bos = find_named(definition_.added, kBeginOfText);
  if (!definition_.eot) definition_.eot = find_named(definition_.added, kEndOfText);
  if (!definition_.eot)
    throw DataError(
        fmt::format("{}: added_tokens holds no end-of-text token; one of {} must be there, or tokenizer_config.json "
                    "beside it must name the eos_token",
                    where, fmt::join(kEndOfText, ", ")));
}

// If so, text may be split before each run of marks, which gives words short enough for the cache.
bool BpeTokenizer::mark_only_begins_words() const {
  const BpeRules& rules = definition_.rules;
  if (rules.symbols == BpeRules::Symbols::bytes || !rules.whole_words.empty()) return false;
  std::unordered_set<int32_t> special_without_mark;
  for (const AddedToken& t : definition_.added)
    if (t.special && !mark_inside(t.content)) special_without_mark.insert(t.id);
  // Special tokens that a merge would give, such as </s>.
  if (!std::all_of(rules.unused.begin(), rules.unused.end(),
                   [&](int32_t id) { return special_without_mark.contains(id); }))
    return false;
  // A mark without a token could become part of a fused run of unknown characters.
  const bool known = std::any_of(rules.characters.begin(), rules.characters.end(),
                                 [](const auto& c) { return c.first == utf8_decode(kSpaceMark); });
  return known &&
         std::none_of(rules.frozen.begin(), rules.frozen.end(),
                      [](const auto& text) { return mark_inside(text.first); }) &&
         std::none_of(rules.merges.begin(), rules.merges.end(), [&](const Merge& merge) {
           return mark_inside(*definition_.tokens[static_cast<size_t>(merge.id)]);
         });
}

std::unique_ptr<Encoder> BpeTokenizer::make_encoder(SpecialText special) const {
  return std::make_unique<TextEncoder>(*this, special);
}

std::optional<int32_t> BpeTokenizer::special_id(std::string_view content) const {
  const auto it = special_ids_.find(content);
  return it != special_ids_.end() ? std::optional(it->second) : std::nullopt;
}

std::string_view BpeTokenizer::special_text(int32_t id) const {
  const auto it = special_texts_.find(id);
  return it != special_texts_.end() ? std::string_view(it->second) : std::string_view();
}

bool BpeTokenizer::is_id(int32_t id) const {
  return id >= 0 && id < vocab_size() && definition_.tokens[static_cast<size_t>(id)].has_value();
}

std::string_view BpeTokenizer::bytes_of(int32_t id) const {
  if (!is_id(id)) throw DataError(fmt::format("token id {} is not in the vocabulary of {} ids", id, vocab_size()));
  return *definition_.tokens[static_cast<size_t>(id)];
}

}  // namespace fp
