#include <nlohmann/json.hpp>

#include "data/tokenizer/source.h"
#include "data/tokenizer/tokenizer_json.h"
#include "interop/companions.h"

namespace fp {
namespace {

using Format = TokenizerSource::Format;

const char* file_name(Format format) {
  switch (format) {
    case Format::tokenizer_json:
      return "tokenizer.json";
    case Format::sentencepiece:
      return "tokenizer.model";
    case Format::tiktoken:
      break;
  }
  return "tokenizer.tiktoken";
}

// Returns the content of the added token with this id; null when there is none.
Json content_of(const Json& tokenizer_json, int32_t id) {
  for (const Json& added : tokenizer_json.value("added_tokens", Json::array()))
    if (added.value("id", -1) == id) return added.at("content");
  return nullptr;
}

void name_special_tokens(const TokenizerSource& source, const Tokenizer& tokenizer, Json& config) {
  Json bos, eos;
  if (source.format == Format::tokenizer_json) {
    const Json j = parse_json(source.data, "the tokenizer", kVocabularyJson);
    eos = content_of(j, tokenizer.eot());
    bos = content_of(j, tokenizer.bos().value_or(tokenizer.eot()));
  }
  if (source.bos_token) bos = *source.bos_token;
  if (source.eos_token) eos = *source.eos_token;
  if (!bos.is_null()) config["bos_token"] = bos;
  if (!eos.is_null()) config["eos_token"] = eos;
}

}  // namespace

std::map<std::string, std::string> hf_tokenizer_files(const Tokenizer& tokenizer) {
  if (tokenizer.kind() == "bytes") return {};
  const TokenizerSource source = recognise_tokenizer(tokenizer.serialized(), "tokenizer");
  Json config = Json::object();
  if (source.format == Format::tokenizer_json) config["tokenizer_class"] = "PreTrainedTokenizerFast";
  if (source.format == Format::sentencepiece) config["tokenizer_class"] = "LlamaTokenizer";
  config["clean_up_tokenization_spaces"] = false;
  // Without this, transformers returns token_type_ids too, which the models do not take.
  config["model_input_names"] = {"input_ids", "attention_mask"};
  name_special_tokens(source, tokenizer, config);
  if (source.format != Format::tokenizer_json) {
    config["add_bos_token"] = source.add_bos;
    config["add_eos_token"] = source.add_eos;
    for (const AddedToken& token : source.added) {
      Json entry = added_token_json(token);
      entry.erase("id");
      config["added_tokens_decoder"][std::to_string(token.id)] = entry;
    }
  }
  return {{file_name(source.format), source.data}, {"tokenizer_config.json", config.dump(2) + "\n"}};
}

}  // namespace fp
