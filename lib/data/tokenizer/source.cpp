#include "data/tokenizer/source.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "base/error.h"
#include "data/tokenizer/base64.h"
#include "data/tokenizer/bpe_tokenizer.h"
#include "data/tokenizer/byte_tokenizer.h"
#include "data/tokenizer/sentencepiece.h"
#include "data/tokenizer/tiktoken.h"
#include "data/tokenizer/tokenizer_json.h"
#include "io/file_status.h"
#include "io/filesystem.h"

namespace fp {
namespace {

using Format = TokenizerSource::Format;
constexpr const char* kWrapperType = "fptrain-tokenizer";
constexpr std::pair<Format, const char*> kFormatNames[] = {{Format::tokenizer_json, "tokenizer.json"},
                                                           {Format::sentencepiece, "sentencepiece"},
                                                           {Format::tiktoken, "tiktoken"}};

bool is_plain(const TokenizerSource& s) {
  return s.format == Format::tokenizer_json && s.added.empty() && !s.add_bos && !s.add_eos && !s.bos_token &&
         !s.eos_token;
}

TokenizerSource unwrap(const JsonValue& json) {
  json.only({"type", "version", "format", "data", "added_tokens", "bos_token", "eos_token", "add_bos", "add_eos"});
  json.at("version").integer(1, 1);
  TokenizerSource source;
  const JsonValue format = json.at("format"), data = json.at("data"), added = json.at("added_tokens");
  const auto known = std::find_if(std::begin(kFormatNames), std::end(kFormatNames),
                                  [&](const auto& name) { return format.text() == name.second; });
  format.need(known != std::end(kFormatNames), "tokenizer.json, sentencepiece, tiktoken");
  source.format = known->first;
  auto bytes = base64_decode(data.text());
  data.need(bytes.has_value(), "base64");
  source.data = std::move(*bytes);
  added.need(added.json().is_array(), "an array");
  for (size_t i = 0; i < added.size(); ++i) source.added.push_back(read_added_token(added[i], added[i].at("id").id()));
  if (!json.get("bos_token").is_null()) source.bos_token = json.at("bos_token").text();
  if (!json.get("eos_token").is_null()) source.eos_token = json.at("eos_token").text();
  source.add_bos = json.at("add_bos").flag(false);
  source.add_eos = json.at("add_eos").flag(false);
  return source;
}

TokenizerDefinition parse_definition(const TokenizerSource& source, const std::string& where) {
  switch (source.format) {
    case Format::sentencepiece:
      return parse_sentencepiece(source, where);
    case Format::tiktoken:
      return parse_tiktoken(source, where);
    case Format::tokenizer_json:
      break;
  }
  return parse_tokenizer_json(source.data, where);
}

// Returns the id of the added token that tokenizer_config.json names.
std::optional<int32_t> named(const TokenizerDefinition& definition, const std::optional<std::string>& content,
                             const char* role, const std::string& where) {
  if (!content) return std::nullopt;
  for (const AddedToken& token : definition.added)
    if (token.content == *content) return token.id;
  throw DataError(fmt::format("{}: {} \"{}\" is not an added token", where, role, *content));
}

}  // namespace

std::string read_tokenizer_file(const std::filesystem::path& path) {
  const auto status = stat_path(path);
  if (status && !S_ISREG(status->st_mode)) throw DataError(fmt::format("{}: is not a regular file", path.string()));
  if (status && static_cast<uint64_t>(status->st_size) > kVocabularyJson.bytes)
    throw DataError(fmt::format("{}: {} bytes, too many for a tokenizer; legal: up to {}", path.string(),
                                status->st_size, kVocabularyJson.bytes));
  return read_file(path);
}

TokenizerSource recognise_tokenizer(std::string content, const std::string& where) {
  const size_t first = content.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && (content[first] == '{' || content[first] == '[')) {
    // Only the wrapper is parsed here; its type is its first field.
    if (content.find(kWrapperType) < 64) {
      const Json document = parse_json(content, where, kVocabularyJson);
      const JsonValue root(document, where);
      if (root.json().is_object() && root.type() == kWrapperType) return unwrap(root);
    }
    return source_of(Format::tokenizer_json, std::move(content));
  }
  if (looks_like_tiktoken(content)) return source_of(Format::tiktoken, std::move(content));
  if (looks_like_sentencepiece(content)) return source_of(Format::sentencepiece, std::move(content));
  throw DataError(fmt::format(
      "{}: not a tokenizer: legal are a tokenizer.json, a SentencePiece model, a tiktoken rank file (lines \"base64 "
      "rank\"), or a folder that holds one",
      where));
}

std::string serialize(const TokenizerSource& source) {
  if (is_plain(source)) return source.data;
  nlohmann::ordered_json json = {{"type", kWrapperType}, {"version", 1}};
  for (const auto& [format, name] : kFormatNames)
    if (format == source.format) json["format"] = name;
  json["add_bos"] = source.add_bos;
  json["add_eos"] = source.add_eos;
  json["bos_token"] = nullptr;
  json["eos_token"] = nullptr;
  if (source.bos_token) json["bos_token"] = *source.bos_token;
  if (source.eos_token) json["eos_token"] = *source.eos_token;
  json["added_tokens"] = nlohmann::ordered_json::array();
  for (const AddedToken& token : source.added)
    json["added_tokens"].push_back(nlohmann::ordered_json(added_token_json(token)));
  json["data"] = base64_encode(source.data);
  return json.dump(1) + "\n";
}

std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerSource& source, const std::string& where) {
  TokenizerDefinition definition = parse_definition(source, where);
  if (const auto bos = named(definition, source.bos_token, "bos_token", where)) definition.bos = bos;
  if (const auto eos = named(definition, source.eos_token, "eos_token", where)) definition.eot = eos;
  for (const auto& [wanted, id, ids, name] :
       {std::tuple(source.add_bos, &definition.bos, &definition.prefix_ids, "add_bos_token"),
        std::tuple(source.add_eos, &definition.eot, &definition.suffix_ids, "add_eos_token")}) {
    if (!wanted) continue;
    if (!*id) throw DataError(fmt::format("{}: {} is true, but there is no such token", where, name));
    ids->push_back(**id);
  }
  return std::make_unique<BpeTokenizer>(std::move(definition), serialize(source), where);
}

void add_tokens_of(const TokenizerSource& source, const StringMap<int32_t>& listed, const std::string& where,
                   TokenizerDefinition& definition) {
  static const Json null;
  const JsonValue json(null, where);
  const size_t most = max_ids(listed.size() + source.added.size());
  std::unordered_map<int32_t, size_t> known;
  for (size_t i = 0; i < definition.added.size(); ++i) known.emplace(definition.added[i].id, i);
  for (const AddedToken& token : source.added) {
    if (static_cast<size_t>(token.id) >= most)
      throw DataError(
          fmt::format("{}: added token \"{}\": id {}; legal: below {}", where, token.content, token.id, most));
    const auto it = listed.find(token.content);
    const auto same = known.find(token.id);
    if (same != known.end() && definition.added[same->second].content == token.content)
      definition.added[same->second] = token;  // the file's flags replace the default ones
    else
      add_token(definition, token, token.content, it != listed.end() ? std::optional(it->second) : std::nullopt, json);
  }
}

}  // namespace fp
