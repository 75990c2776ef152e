#include "data/tokenizer/tokenizer_json.h"

namespace fp {
namespace {

using Ordered = nlohmann::ordered_json;

Ordered special_token(const std::pair<std::string, int32_t>& token) {
  return {{"id", token.second}, {"content", token.first}, {"single_word", false}, {"lstrip", false},
          {"rstrip", false},    {"normalized", false},    {"special", true}};
}

}  // namespace

std::string write_tokenizer_json(const Gpt2Vocabulary& vocabulary) {
  Ordered vocab = Ordered::object(), merges = Ordered::array();
  // Appends to the underlying vector, because operator[] of an ordered_json searches all keys first.
  auto& entries = vocab.get_ref<Ordered::object_t&>();
  for (const auto& [token, id] : vocabulary.vocab) entries.push_back({token, id});
  for (const auto& [left, right] : vocabulary.merges) merges.push_back(left + " " + right);
  Ordered added = Ordered::array({special_token(vocabulary.end_of_text)});
  for (const auto& token : vocabulary.special) added.push_back(special_token(token));
  for (const AddedToken& token : vocabulary.added) added.push_back(Ordered(added_token_json(token)));
  const Ordered byte_level = {{"type", "ByteLevel"},
                              {"add_prefix_space", vocabulary.prefix_space},
                              {"trim_offsets", true},
                              {"use_regex", true}};
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
