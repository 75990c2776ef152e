#include "data/tokenizer/tokenizer_json.h"

#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "base/log.h"
#include "base/utf8.h"
#include "data/tokenizer/byte_alphabet.h"
#include "data/tokenizer/tokenizer_json_steps.h"

namespace fp {
namespace {

class Parser {
 public:
  explicit Parser(const std::string& where) : where_(where) {}

  TokenizerDefinition parse(const std::string& text) {
    const Json document = parse_json(text, where_, kVocabularyJson);
    const JsonValue root(document, where_);
    root.only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
               "decoder", "model"});
    if (const JsonValue version = root.get("version"); !version.is_null())
      version.need(version.json() == "1.0", "\"1.0\"");
    for (const char* field : {"truncation", "padding"})
      if (!root.get(field).is_null())
        log::warning("{}: {} is not null: it has no effect here, texts are neither truncated nor padded", where_,
                     field);
    read_text_steps(root);
    const JsonValue added = root.get("added_tokens");
    if (!added.is_null()) added.need(added.json().is_array(), "an array");
    read_model(root.at("model"), added.size());
    for (size_t i = 0; i < added.size(); ++i) {
      const AddedToken token = read_added_token(added[i], added[i].at("id").id());
      check_id_limit(token.id, added[i].at("id"));
      const auto it = ids_.find(token.content);
      add_token(definition_, token, byte_level() ? token.content : decoder_.text_of(token.content),
                it != ids_.end() ? std::optional(it->second) : std::nullopt, added[i]);
    }
    keep_special_as_text();
    check_ids(root);
    return std::move(definition_);
  }

 private:
  bool byte_level() const { return decoder_.byte_level; }

  void read_text_steps(const JsonValue& root) {
    definition_.normalizer = read_normalizer(root.get("normalizer"));
    PreTokenizer pre = read_pre_tokenizer(root.get("pre_tokenizer"));
    // Refused because Hugging Face counts prepended text as the start depending on offsets, which are not tracked here.
    const auto& steps = definition_.normalizer;
    const bool prepends = std::any_of(steps.begin(), steps.end(),
                                      [](const TextStep& step) { return step.kind == TextStep::Kind::prepend; });
    const bool at_start = std::any_of(pre.steps.begin(), pre.steps.end(), [](const TextStep& step) {
      return step.kind == TextStep::Kind::prepend && step.prepend == TextStep::Prepend::at_start_unless_there;
    });
    root.get("pre_tokenizer").need(!prepends || !at_start, "no prepend_scheme \"first\" beside the normalizer Prepend");
    definition_.pre_tokenizer = std::move(pre.steps);
    decoder_ = read_decoder(root.get("decoder"));
    root.get("decoder").need(decoder_.byte_level == pre.byte_level,
                             pre.byte_level ? "ByteLevel, as the pre_tokenizer" : "no ByteLevel, as the pre_tokenizer");
    if (decoder_.byte_level)
      root.get("decoder").need(decoder_.replacements.empty() && !decoder_.byte_fallback, "ByteLevel alone");
    definition_.dummy_prefix = decoder_.dummy_prefix;
    PostProcessor post = read_post_processor(root.get("post_processor"));
    definition_.prefix_ids = std::move(post.prefix_ids);
    definition_.suffix_ids = std::move(post.suffix_ids);
    definition_.kind = byte_level() ? "byte-level BPE" : "character BPE";
    definition_.rules.symbols = byte_level() ? BpeRules::Symbols::bytes : BpeRules::Symbols::characters;
  }

  void read_model(const JsonValue& model, size_t added) {
    model.only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                "byte_fallback", "ignore_merges", "vocab", "merges"});
    model.get("type").need(model.get("type").is_null() || model.type() == "BPE", "\"BPE\"");
    const Json& dropout = model.get("dropout").json();
    model.get("dropout").need(dropout.is_null() || dropout == 0.0, "null");
    for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"})
      model.get(affix).need(model.get(affix).is_null() || model.get(affix).json() == "", "null or \"\"");
    read_vocab(model.at("vocab"), added);
    definition_.rules.fuse_unknown = model.get("fuse_unk").flag(false);
    if (const JsonValue unknown = model.get("unk_token"); !unknown.is_null() && !byte_level())
      definition_.rules.unknown = token_id(unknown.text(), unknown);
    const bool fallback = model.get("byte_fallback").flag(false);
    byte_level() ? set_bytes(model) : set_characters(model, fallback);
    read_merges(model.at("merges"));
    if (model.get("ignore_merges").flag(false))
      for (const auto& [token, id] : ids_)
        if (const auto word = symbols_of(token)) definition_.rules.whole_words.emplace_back(*word, id);
  }

  // Returns the text that the model sees for a token; nothing for a token that no text can produce.
  std::optional<std::string> symbols_of(const std::string& token) const {
    return byte_level() ? alphabet_.from_printable(token) : std::optional(token);
  }

  void read_vocab(const JsonValue& vocab, size_t added) {
    vocab.need(vocab.json().is_object() && !vocab.json().empty(), "an object of token: id");
    max_ids_ = max_ids(vocab.size() + added);
    vocab.for_each_field([&](const std::string& token, const JsonValue& value) {
      const int32_t id = value.id();
      check_id_limit(id, value);
      auto& tokens = definition_.tokens;
      if (tokens.size() <= static_cast<size_t>(id)) tokens.resize(static_cast<size_t>(id) + 1);
      if (tokens[static_cast<size_t>(id)]) value.fail(fmt::format("id {} is taken twice", id));
      // Tokens outside the byte alphabet are added tokens that the vocabulary lists as plain text.
      tokens[static_cast<size_t>(id)] =
          byte_level() ? alphabet_.from_printable(token).value_or(token) : decoder_.text_of(token);
      ids_.emplace(token, id);
    });
  }
  void check_id_limit(int32_t id, const JsonValue& json) const {
    json.need(static_cast<size_t>(id) < max_ids_, fmt::format("ids below {} in a file of this many tokens", max_ids_));
  }
  int32_t token_id(const std::string& token, const JsonValue& json) const {
    const auto it = ids_.find(token);
    if (it == ids_.end()) json.fail(fmt::format("\"{}\" is not in model.vocab", token));
    return it->second;
  }

  void set_bytes(const JsonValue& model) {
    auto& ids = definition_.rules.byte_ids;
    for (size_t b = 0; b < ids.size(); ++b) {
      const auto it = ids_.find(alphabet_.to_printable(std::string(1, static_cast<char>(static_cast<uint8_t>(b)))));
      if (it == ids_.end())
        model.at("vocab").fail(
            fmt::format("no token for the single byte {:#04x}; a byte-level vocabulary holds all 256", b));
      ids[b] = it->second;
    }
  }
  void set_characters(const JsonValue& model, bool fallback) {
    auto& rules = definition_.rules;
    for (const auto& [token, id] : ids_)
      if (!token.empty() && utf8_character(token) == token.size())
        rules.characters.emplace_back(utf8_decode(token), id);
    size_t found = 0;
    rules.byte_ids.fill(-1);
    for (int b = 0; fallback && b < 256; ++b)
      if (const auto it = ids_.find(fallback_token_of(b)); it != ids_.end())
        rules.byte_ids[static_cast<size_t>(b)] = it->second, ++found;
    model.get("byte_fallback").need(found == 0 || found == 256, "all of <0x00> to <0xFF> in model.vocab, or none");
    model.get("unk_token")
        .need(found == 256 || rules.unknown,
              "a token of model.vocab, unless byte_fallback spells every unknown character");
  }

  void read_merges(const JsonValue& merges) {
    merges.need(merges.json().is_array(), "an array");
    PairMap<bool> seen(merges.size());
    for (size_t i = 0; i < merges.size(); ++i) {
      const JsonValue json = merges[i];
      const auto [left, right] = split_merge(json);
      const Merge merge{
          {token_id(left, json), token_id(right, json)}, token_id(left + right, json), static_cast<int32_t>(i)};
      if (!seen.insert(merge.pair).second) json.fail("repeats an earlier merge");
      for (const auto& half : {left, right})
        json.need(
            byte_level() || (byte_of_fallback_token(half) < 0 && token_id(half, json) != definition_.rules.unknown),
            "merges of characters, not of unk_token or <0x..> tokens");
      definition_.rules.merges.push_back(merge);
    }
  }
  static std::pair<std::string, std::string> split_merge(const JsonValue& json) {
    constexpr const char* kLegal = "\"left right\" or [\"left\", \"right\"]";
    if (json.json().is_array()) {
      json.need(json.size() == 2, kLegal);
      return {json[0].text(), json[1].text()};
    }
    json.need(json.json().is_string(), kLegal);
    const auto& text = json.json().get_ref<const std::string&>();
    const size_t space = text.find(' ');
    json.need(space != std::string::npos && space > 0 && space + 1 < text.size() &&
                  text.find(' ', space + 1) == std::string::npos,
              kLegal);
    return {text.substr(0, space), text.substr(space + 1)};
  }

  // A special token that is spelled out in a text stays text: a merge that gives one is undone at the end. Encoders
  // that take special tokens find them before any merge.
  void keep_special_as_text() {
    std::unordered_set<int32_t> special;
    for (const AddedToken& token : definition_.added)
      if (token.special) special.insert(token.id);
    BpeRules& rules = definition_.rules;
    std::unordered_set<int32_t> merged;
    for (const Merge& merge : rules.merges)
      if (special.contains(merge.id) && merged.insert(merge.id).second) rules.unused.push_back(merge.id);
    std::erase_if(rules.whole_words, [&](const auto& word) { return special.contains(word.second); });
  }

  // Requires that every id of the post-processor is a token.
  void check_ids(const JsonValue& root) const {
    for (const auto* ids : {&definition_.prefix_ids, &definition_.suffix_ids})
      for (const int32_t id : *ids)
        root.get("post_processor")
            .need(static_cast<size_t>(id) < definition_.tokens.size() && definition_.tokens[static_cast<size_t>(id)],
                  "ids of model.vocab or added_tokens");
  }

  const std::string& where_;
  ByteAlphabet alphabet_;
  TokenDecoder decoder_;
  TokenizerDefinition definition_;
  StringMap<int32_t> ids_;  // model.vocab
  size_t max_ids_ = 0;
};

}  // namespace

TokenizerDefinition parse_tokenizer_json(const std::string& text, const std::string& where) {
  return Parser(where).parse(text);
}

AddedToken read_added_token(const JsonValue& json, int32_t id) {
  json.only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  AddedToken token;
  token.id = id;
  token.content = json.at("content").text();
  json.at("content").need(!token.content.empty(), "a non-empty string");
  token.special = json.get("special").flag(false);
  token.normalized = json.get("normalized").flag(!token.special);
  token.single_word = json.get("single_word").flag(false);
  token.lstrip = json.get("lstrip").flag(false);
  token.rstrip = json.get("rstrip").flag(false);
  return token;
}

Json added_token_json(const AddedToken& token) {
  return {{"id", token.id},          {"content", token.content}, {"single_word", token.single_word},
          {"lstrip", token.lstrip},  {"rstrip", token.rstrip},   {"normalized", token.normalized},
          {"special", token.special}};
}

void add_token(TokenizerDefinition& definition, const AddedToken& token, std::string text,
               std::optional<int32_t> listed, const JsonValue& json) {
  if (listed && *listed != token.id)
    json.fail(fmt::format("id {} for \"{}\", but the vocabulary says {}", token.id, token.content, *listed));
  const auto id = static_cast<size_t>(token.id);
  if (definition.tokens.size() <= id) definition.tokens.resize(id + 1);
  if (!listed && definition.tokens[id]) json.fail(fmt::format("id {} is taken twice", token.id));
  definition.tokens[id] = std::move(text);
  definition.added.push_back(token);
}

}  // namespace fp
