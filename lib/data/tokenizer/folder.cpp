// Loads tokenizers from Hugging Face folders: finds the main file and applies the additions of the files beside it.
#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/utf8.h"
#include "data/tokenizer/source.h"
#include "data/tokenizer/tiktoken.h"
#include "data/tokenizer/tokenizer_json.h"

namespace fp {
namespace {

namespace fs = std::filesystem;
using Format = TokenizerSource::Format;

// An optional JSON file; null when it is absent.
struct JsonFile {
  explicit JsonFile(const fs::path& path)
      : where(path.string()),
        document(fs::exists(path) ? parse_json(read_tokenizer_file(path), path.string(), kVocabularyJson) : Json()) {}
  JsonValue root() const { return {document, where}; }

  std::string where;
  Json document;
};

// Reads a token of tokenizer_config.json: "..." or {"content": "..."}.
std::optional<std::string> token_content(const JsonValue& json) {
  if (json.is_null()) return std::nullopt;
  return json.json().is_object() ? json.at("content").text() : json.text();
}

int32_t id_of_key(const std::string& key, const JsonValue& json) {
  int32_t id = -1;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  if (error != std::errc() || end != key.data() + key.size() || id < 0 || id >= kMaxTokenIds)
    json.fail(fmt::format("the key is not an id below {}", kMaxTokenIds));
  return id;
}

// Reads added_tokens_decoder of tokenizer_config.json, else added_tokens.json, which has no flags.
std::vector<AddedToken> read_added_tokens(const JsonValue& config, const fs::path& folder) {
  std::vector<AddedToken> added;
  if (const JsonValue decoder = config.get("added_tokens_decoder"); !decoder.is_null()) {
    decoder.for_each_field([&](const std::string& key, const JsonValue& entry) {
      added.push_back(read_added_token(entry, id_of_key(key, entry)));
    });
  } else if (const JsonFile file(folder / "added_tokens.json"); !file.document.is_null()) {
    file.root().for_each_field([&](const std::string& content, const JsonValue& id) {
      id.need(!content.empty(), "a token that is not empty");
      AddedToken token;
      token.id = id.id();
      token.content = content;
      token.special = true;
      added.push_back(token);
    });
  }
  std::sort(added.begin(), added.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  return added;
}

// Converts vocab.json and merges.txt, and the additions of the files beside them, to a tokenizer.json.
TokenizerSource read_gpt2(const fs::path& folder, const JsonValue& config, const std::optional<std::string>& eos) {
  Gpt2Vocabulary vocabulary;
  const JsonFile vocab(folder / "vocab.json");
  const std::string usual = "<|endoftext|>";
  vocabulary.end_of_text = {eos.value_or(usual), -1};
  vocab.root().for_each_field([&](const std::string& token, const JsonValue& id) {
    vocabulary.vocab.emplace_back(token, id.id());
    if (token == vocabulary.end_of_text.first) vocabulary.end_of_text.second = id.id();
  });
  vocabulary.prefix_space = config.get("add_prefix_space").flag(false);
  for (const AddedToken& token : read_added_tokens(config, folder))
    if (token.content == vocabulary.end_of_text.first)
      vocabulary.end_of_text.second = token.id;
    else
      vocabulary.added.push_back(token);
  if (vocabulary.end_of_text.second < 0)
    vocab.root().fail(fmt::format("holds no \"{}\", which ends a document", vocabulary.end_of_text.first));
  std::sort(vocabulary.vocab.begin(), vocabulary.vocab.end(),
            [](const auto& a, const auto& b) { return a.second < b.second; });
  const std::string text = read_tokenizer_file(folder / "merges.txt");
  if (const size_t valid = utf8_valid_prefix(text); valid != text.size())
    throw DataError(fmt::format("{}: is not UTF-8 from byte {} on", (folder / "merges.txt").string(), valid));
  size_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.ends_with('\r')) line.pop_back();
    if (++number == 1 && line.starts_with("#version")) continue;
    if (line.empty()) continue;
    const size_t space = line.find(' ');
    if (space == std::string::npos || space == 0 || space + 1 == line.size() ||
        line.find(' ', space + 1) != std::string::npos)
      throw DataError(
          fmt::format("{}:{}: legal: two tokens and a space between them", (folder / "merges.txt").string(), number));
    vocabulary.merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
  TokenizerSource source = source_of(Format::tokenizer_json, write_tokenizer_json(vocabulary));
  if (vocabulary.end_of_text.first != usual) source.eos_token = vocabulary.end_of_text.first;
  return source;
}

fs::path rank_file(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".tiktoken") found.push_back(entry.path());
  if (found.size() > 1)
    throw DataError(fmt::format("{}: holds {} .tiktoken files; legal: one, or the path of the one that is meant",
                                folder.string(), found.size()));
  return found.empty() ? fs::path() : found[0];
}

TokenizerSource read_main_file(const fs::path& folder, const JsonValue& config, const std::optional<std::string>& eos) {
  const fs::path json = folder / "tokenizer.json", model = folder / "tokenizer.model";
  if (fs::exists(json)) return source_of(Format::tokenizer_json, read_tokenizer_file(json));
  if (fs::exists(model)) return recognise_tokenizer(read_tokenizer_file(model), model.string());
  if (const fs::path ranks = rank_file(folder); !ranks.empty())
    return source_of(Format::tiktoken, read_tokenizer_file(ranks));
  if (fs::exists(folder / "vocab.json") && fs::exists(folder / "merges.txt")) return read_gpt2(folder, config, eos);
  throw DataError(fmt::format(
      "{}: holds no tokenizer: legal are tokenizer.json, tokenizer.model, *.tiktoken, or vocab.json with merges.txt",
      folder.string()));
}

}  // namespace

std::unique_ptr<Tokenizer> load_tokenizer_folder(const fs::path& folder) {
  const JsonFile config_file(folder / "tokenizer_config.json");
  const JsonValue config = config_file.root();
  const std::string where = folder.string();
  const auto eos = token_content(config.get("eos_token")), bos = token_content(config.get("bos_token"));
  const std::string type = config.get("tokenizer_class").is_null() ? "" : config.at("tokenizer_class").text();
  TokenizerSource source = read_main_file(folder, config, eos);
  if (source.format == Format::tokenizer_json) {
    // tokenizer.json is complete, so the config matters only in the rare case that it names other tokens.
    auto tokenizer = make_tokenizer(source, where);
    const bool same_eos = !eos || tokenizer->special_id(*eos) == tokenizer->eot();
    const bool same_bos = !bos || bos == eos || tokenizer->special_id(*bos) == tokenizer->bos();
    if (same_eos && same_bos) return tokenizer;
  } else {
    source.added = read_added_tokens(config, folder);
    if (source.format == Format::tiktoken && type == "Phi3SmallTokenizer" && source.added.empty())
      source.added = phi3_small_tokens();
    source.add_bos = config.get("add_bos_token").flag(type.starts_with("LlamaTokenizer"));
    source.add_eos = config.get("add_eos_token").flag(false);
  }
  source.eos_token = eos;
  source.bos_token = bos;
  // Like transformers, treat a folder without a class as Llama's, which puts <s> first by default.
  if (source.format == Format::sentencepiece && type.empty() && config.get("add_bos_token").is_null()) {
    if (!bos && make_tokenizer(source, where)->special_id("<s>")) source.bos_token = "<s>";
    source.add_bos = source.bos_token.has_value();
  }
  return make_tokenizer(source, where);
}

}  // namespace fp
