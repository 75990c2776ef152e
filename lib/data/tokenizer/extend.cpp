// Adds special tokens to a tokenizer of any format.
#include <algorithm>

#include "base/error.h"
#include "base/shown.h"
#include "base/utf8.h"
#include "data/tokenizer/source.h"
#include "data/tokenizer/tokenizer_json.h"

namespace fp {
namespace {

AddedToken special_token(int32_t id, const std::string& content) {
  AddedToken token;
  token.id = id;
  token.content = content;
  token.special = true;
  return token;
}

// Appends to added_tokens of a tokenizer.json.
std::string with_added(const std::string& tokenizer_json, const std::vector<AddedToken>& tokens) {
  Json root = parse_json(tokenizer_json, "the tokenizer", kVocabularyJson);
  auto& added = root["added_tokens"];
  if (!added.is_array()) added = Json::array();
  for (const AddedToken& token : tokens) added.push_back(added_token_json(token));
  return root.dump(2) + "\n";
}

// Throws ConfigError for a text that cannot become a further token.
void require_new(const Tokenizer& tokenizer, const std::string& content) {
  if (content.empty() || utf8_valid_prefix(content) != content.size())
    throw ConfigError(fmt::format("special token '{}'; legal: text in UTF-8 that is not empty", shown(content)));
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id)
    if (tokenizer.is_id(id) && (tokenizer.special_text(id) == content || tokenizer.bytes_of(id) == content))
      throw ConfigError(fmt::format("special token '{}': it is token {} already", shown(content), id));
}

// A rank file names no special tokens: while nothing is added, its parser assumes the usual ones of its vocabulary.
void write_out_usual_tokens(const Tokenizer& tokenizer, TokenizerSource& source) {
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id)
    if (const std::string content(tokenizer.special_text(id)); !content.empty())
      source.added.push_back(special_token(id, content));
  source.add_bos = !tokenizer.prefix_ids().empty();
  if (source.add_bos) source.bos_token = std::string(tokenizer.special_text(tokenizer.prefix_ids().front()));
}

}  // namespace

std::unique_ptr<Tokenizer> with_special_tokens(const Tokenizer& tokenizer, const std::vector<std::string>& contents) {
  if (tokenizer.kind() == "bytes")
    throw ConfigError("the tokenizer \"bytes\" has no file to add tokens to; `fptrain data train-tokenizer` makes one");
  std::vector<AddedToken> tokens;
  for (const std::string& content : contents) {
    require_new(tokenizer, content);
    if (std::count(contents.begin(), contents.end(), content) > 1)
      throw ConfigError(fmt::format("special token '{}' is given twice", shown(content)));
    tokens.push_back(special_token(tokenizer.vocab_size() + static_cast<int32_t>(tokens.size()), content));
  }
  const std::string where = "the tokenizer with its new tokens";
  TokenizerSource source = recognise_tokenizer(tokenizer.serialized(), where);
  if (source.format == TokenizerSource::Format::tiktoken && source.added.empty())
    write_out_usual_tokens(tokenizer, source);
  if (source.format == TokenizerSource::Format::tokenizer_json)
    source.data = with_added(source.data, tokens);
  else
    source.added.insert(source.added.end(), tokens.begin(), tokens.end());
  auto extended = make_tokenizer(source, where);
  if (extended->eot() == tokenizer.eot() && extended->bos() == tokenizer.bos()) return extended;
  // A new token has one of the usual names, but must not become the begin or the end of a text.
  if (!tokenizer.bos() && extended->bos())
    throw ConfigError(fmt::format("special token '{}': it would begin texts, for which the tokenizer has no token",
                                  shown(extended->special_text(*extended->bos()))));
  if (const auto bos = tokenizer.bos()) source.bos_token = std::string(tokenizer.special_text(*bos));
  source.eos_token = std::string(tokenizer.special_text(tokenizer.eot()));
  return make_tokenizer(source, where);
}

}  // namespace fp
