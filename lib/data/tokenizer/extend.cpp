// Adds special tokens to a tokenizer of any format.
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/utf8.h"
#include "data/tokenizer/source.h"
#include "data/tokenizer/tokenizer_json.h"

namespace fp {
namespace {

// Appends to added_tokens of a tokenizer.json.
std::string with_added(const std::string& tokenizer_json, const std::vector<AddedToken>& tokens) {
  Json root = parse_json(tokenizer_json, "the tokenizer", kVocabularyJson);
  auto& added = root["added_tokens"];
  if (!added.is_array()) added = Json::array();
  for (const AddedToken& token : tokens) added.push_back(added_token_json(token));
  return root.dump(2) + "\n";
}

}  // namespace

std::unique_ptr<Tokenizer> with_special_tokens(const Tokenizer& tokenizer, const std::vector<std::string>& contents) {
  if (tokenizer.kind() == "bytes")
    throw ConfigError("the tokenizer \"bytes\" has no file to add tokens to; `fptrain data train-tokenizer` makes one");
  std::vector<AddedToken> tokens;
  std::set<std::string> seen;
  for (const std::string& content : contents) {
    if (content.empty() || utf8_valid_prefix(content) != content.size())
      throw ConfigError("a special token must be a text in UTF-8 that is not empty");
    if (tokenizer.special_id(content) || !seen.insert(content).second)
      throw ConfigError(fmt::format("{}: is a token already", content));
    AddedToken token;
    token.id = tokenizer.vocab_size() + static_cast<int32_t>(tokens.size());
    token.content = content;
    token.special = true;
    tokens.push_back(token);
  }
  const std::string where = "the tokenizer with its new tokens";
  TokenizerSource source = recognise_tokenizer(tokenizer.serialized(), where);
  if (source.format == TokenizerSource::Format::tokenizer_json)
    source.data = with_added(source.data, tokens);
  else
    source.added.insert(source.added.end(), tokens.begin(), tokens.end());
  auto extended = make_tokenizer(source, where);
  if (extended->eot() == tokenizer.eot()) return extended;
  source.eos_token = std::string(tokenizer.special_text(tokenizer.eot()));  // a new token has one of the usual names
  return make_tokenizer(source, where);
}

}  // namespace fp
