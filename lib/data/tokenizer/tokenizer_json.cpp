#include "data/tokenizer/tokenizer_json.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "data/tokenizer/byte_alphabet.h"

namespace fp {
namespace {

using Json = nlohmann::json;

// Reads fields, and knows where it is for error messages.
class Parser {
 public:
  explicit Parser(std::string where) : where_(std::move(where)) {}

  BpeDefinition parse(const std::string& text) {
    Json root;
    try {
      root = Json::parse(text);
    } catch (const Json::parse_error& e) {
      throw DataError(fmt::format("{}: not JSON: {}", where_, e.what()));
    }
    need(root.is_object(), "(root)", "an object");
    only(root, "",
         {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
          "decoder", "model"});
    need(root.value("version", Json("1.0")) == "1.0", "version", "\"1.0\"");
    for (const char* field : {"truncation", "padding", "normalizer"}) need_null(root, "", field);
    parse_pre_tokenizer(field(root, "", "pre_tokenizer"));
    const Json post = root.value("post_processor", Json());
    need(post.is_null() || type_of(post) == "ByteLevel", "post_processor.type", "null or \"ByteLevel\"");
    need(type_of(field(root, "", "decoder")) == "ByteLevel", "decoder.type", "\"ByteLevel\"");
    parse_model(field(root, "", "model"));
    parse_added(root.value("added_tokens", Json::array()));
    return std::move(definition_);
  }

 private:
  [[noreturn]] void fail(const std::string& name, const std::string& legal) const {
    throw DataError(fmt::format("{}: {}: not supported or malformed; legal: {}", where_, name, legal));
  }
  void need(bool ok, const std::string& name, const std::string& legal) const {
    if (!ok) fail(name, legal);
  }
  const Json& field(const Json& object, const std::string& prefix, const char* name) const {
    const auto it = object.find(name);
    if (it == object.end()) throw DataError(fmt::format("{}: {}{}: missing", where_, prefix, name));
    return *it;
  }
  void need_null(const Json& object, const std::string& prefix, const char* name) const {
    const auto it = object.find(name);
    need(it == object.end() || it->is_null(), prefix + name, "null");
  }
  void only(const Json& object, const std::string& prefix, std::initializer_list<std::string_view> names) const {
    for (const auto& [key, value] : object.items())
      if (std::find(names.begin(), names.end(), key) == names.end())
        throw DataError(fmt::format("{}: {}{}: unknown field", where_, prefix, key));
  }
  static std::string type_of(const Json& object) {
    return object.is_object() && object.contains("type") && object["type"].is_string()
               ? object["type"].get<std::string>()
               : std::string();
  }
  bool flag(const Json& object, const std::string& prefix, const char* name, bool absent) const {
    const auto it = object.find(name);
    if (it == object.end()) return absent;
    need(it->is_boolean(), prefix + name, "true or false");
    return it->get<bool>();
  }
  int32_t id_of(const Json& value, const std::string& name) const {
    need(value.is_number_unsigned() && value.get<uint64_t>() < kMaxIds, name,
         fmt::format("an integer below {}", kMaxIds));
    return value.get<int32_t>();
  }

  void parse_pre_tokenizer(const Json& pre) {
    need(type_of(pre) == "ByteLevel", "pre_tokenizer.type", "\"ByteLevel\"");
    only(pre, "pre_tokenizer.", {"type", "add_prefix_space", "trim_offsets", "use_regex"});
    need(!flag(pre, "pre_tokenizer.", "add_prefix_space", true), "pre_tokenizer.add_prefix_space", "false");
    flag(pre, "pre_tokenizer.", "trim_offsets", true);  // offsets are never asked for
    if (flag(pre, "pre_tokenizer.", "use_regex", true)) definition_.pattern = kGpt2Pattern;
  }

  void parse_model(const Json& model) {
    need(model.is_object(), "model", "an object");
    only(model, "model.",
         {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
          "byte_fallback", "ignore_merges", "vocab", "merges"});
    need(model.value("type", Json("BPE")) == "BPE", "model.type", "\"BPE\"");
    const Json dropout = model.value("dropout", Json());
    need(dropout.is_null() || dropout == 0.0, "model.dropout", "null");
    for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const Json value = model.value(affix, Json());
      need(value.is_null() || value == "", std::string("model.") + affix, "null or \"\"");
    }
    need(!flag(model, "model.", "byte_fallback", false), "model.byte_fallback", "false");
    need(!flag(model, "model.", "ignore_merges", false), "model.ignore_merges", "false");
    // All 256 bytes are tokens (checked later), so nothing is ever unknown and these two cannot matter.
    flag(model, "model.", "fuse_unk", false);
    const Json unk = model.value("unk_token", Json());
    need(unk.is_null() || unk.is_string(), "model.unk_token", "null or a string");
    parse_vocab(field(model, "model.", "vocab"));
    parse_merges(field(model, "model.", "merges"));
  }

  void parse_vocab(const Json& vocab) {
    need(vocab.is_object() && !vocab.empty(), "model.vocab", "an object of token: id");
    for (const auto& [token, value] : vocab.items()) {
      const std::string name = fmt::format("model.vocab[\"{}\"]", token);
      const int32_t id = id_of(value, name);
      // Tokens outside the byte alphabet are added tokens listed here too: their text is plain.
      put_token(id, alphabet_.from_printable(token).value_or(token), name);
      ids_.emplace(token, id);
    }
  }
  void put_token(int32_t id, std::string bytes, const std::string& name) {
    auto& tokens = definition_.tokens;
    if (tokens.size() <= static_cast<size_t>(id)) tokens.resize(static_cast<size_t>(id) + 1);
    if (tokens[static_cast<size_t>(id)]) throw DataError(fmt::format("{}: {}: id {} is taken twice", where_, name, id));
    tokens[static_cast<size_t>(id)] = std::move(bytes);
  }

  int32_t token_id(const std::string& token, const std::string& name) const {
    const auto it = ids_.find(token);
    if (it == ids_.end()) throw DataError(fmt::format("{}: {}: \"{}\" is not in model.vocab", where_, name, token));
    return it->second;
  }
  void parse_merges(const Json& merges) {
    need(merges.is_array(), "model.merges", "an array");
    PairMap<bool> seen(merges.size());
    for (size_t i = 0; i < merges.size(); ++i) {
      const std::string name = fmt::format("model.merges[{}]", i);
      const auto [left, right] = split_merge(merges[i], name);
      const Merge merge{{token_id(left, name), token_id(right, name)}, token_id(left + right, name)};
      if (!seen.insert(merge.pair).second)
        throw DataError(fmt::format("{}: {}: repeats an earlier merge", where_, name));
      definition_.merges.push_back(merge);
    }
  }
  std::pair<std::string, std::string> split_merge(const Json& merge, const std::string& name) const {
    constexpr const char* kLegal = "\"left right\" or [\"left\", \"right\"]";
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
      return {merge[0].get<std::string>(), merge[1].get<std::string>()};
    need(merge.is_string(), name, kLegal);
    const auto text = merge.get<std::string>();
    const size_t space = text.find(' ');
    need(space != std::string::npos && space > 0 && space + 1 < text.size() &&
             text.find(' ', space + 1) == std::string::npos,
         name, kLegal);
    return {text.substr(0, space), text.substr(space + 1)};
  }

  void parse_added(const Json& added) {
    need(added.is_array(), "added_tokens", "an array");
    std::vector<bool> seen;
    for (size_t i = 0; i < added.size(); ++i) {
      const std::string prefix = fmt::format("added_tokens[{}].", i);
      need(added[i].is_object(), fmt::format("added_tokens[{}]", i), "an object");
      only(added[i], prefix, {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
      for (const char* name : {"single_word", "lstrip", "rstrip"})
        need(!flag(added[i], prefix, name, false), prefix + name, "false");
      AddedToken token;
      token.id = id_of(field(added[i], prefix, "id"), prefix + "id");
      const Json& content = field(added[i], prefix, "content");
      need(content.is_string() && content != "", prefix + "content", "a non-empty string");
      token.content = content.get<std::string>();
      token.special = flag(added[i], prefix, "special", false);
      token.normalized = flag(added[i], prefix, "normalized", !token.special);
      add(std::move(token), prefix, seen);
    }
  }
  void add(AddedToken token, const std::string& prefix, std::vector<bool>& seen) {
    const auto id = static_cast<size_t>(token.id);
    const auto in_vocab = ids_.find(token.content);
    if (in_vocab != ids_.end() && in_vocab->second != token.id)
      throw DataError(fmt::format("{}: {}id: {}, but model.vocab says {}", where_, prefix, token.id, in_vocab->second));
    if (in_vocab == ids_.end()) put_token(token.id, token.content, prefix + "id");
    definition_.tokens[id] = token.content;
    seen.resize(std::max(seen.size(), definition_.tokens.size()));
    if (seen[id]) throw DataError(fmt::format("{}: {}id: id {} is added twice", where_, prefix, token.id));
    seen[id] = true;
    definition_.added.push_back(std::move(token));
  }

  static constexpr uint64_t kMaxIds = uint64_t{1}
                                      << 24;  // far above any vocabulary; bounds what a broken file can allocate

  std::string where_;
  ByteAlphabet alphabet_;
  BpeDefinition definition_;
  std::unordered_map<std::string, int32_t> ids_;
};

}  // namespace

std::unique_ptr<Tokenizer> parse_tokenizer_json(std::string text, const std::string& where) {
  BpeDefinition definition = Parser(where).parse(text);
  return std::make_unique<BpeTokenizer>(std::move(definition), std::move(text), where);
}

std::string write_tokenizer_json(const BpeDefinition& definition) {
  FP_CHECK(definition.pattern == kGpt2Pattern, "only GPT-2's pattern has a standard form");
  using Ordered = nlohmann::ordered_json;
  const ByteAlphabet alphabet;
  Ordered added = Ordered::array(), vocab = Ordered::object(), merges = Ordered::array();
  std::vector<std::string> names;
  for (const auto& token : definition.tokens) names.push_back(alphabet.to_printable(token.value()));
  for (const AddedToken& token : definition.added) {
    names[static_cast<size_t>(token.id)] = token.content;
    added.push_back({{"id", token.id},
                     {"content", token.content},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", token.normalized},
                     {"special", token.special}});
  }
  // Written straight into the underlying sequence: operator[] of an ordered_json looks through all keys before it adds
  // one.
  auto& entries = vocab.get_ref<Ordered::object_t&>();
  for (size_t id = 0; id < names.size(); ++id) entries.push_back({names[id], id});
  for (const Merge& merge : definition.merges)
    merges.push_back(names[static_cast<size_t>(merge.pair.first)] + " " +
                     names[static_cast<size_t>(merge.pair.second)]);
  const Ordered byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  const Ordered root = {{"version", "1.0"},
                        {"truncation", nullptr},
                        {"padding", nullptr},
                        {"added_tokens", std::move(added)},
                        {"normalizer", nullptr},
                        {"pre_tokenizer", byte_level},
                        {"post_processor", byte_level},
                        {"decoder", byte_level},
                        {"model",
                         {{"type", "BPE"},
                          {"dropout", nullptr},
                          {"unk_token", nullptr},
                          {"continuing_subword_prefix", nullptr},
                          {"end_of_word_suffix", nullptr},
                          {"fuse_unk", false},
                          {"byte_fallback", false},
                          {"ignore_merges", false},
                          {"vocab", std::move(vocab)},
                          {"merges", std::move(merges)}}}};
  return root.dump(2) + "\n";
}

}  // namespace fp
