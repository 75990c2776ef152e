#include "data/tokenizer/tokenizer_json.h"

namespace fp {

std::string write_tokenizer_json(const Gpt2Vocabulary& vocabulary) {
  using Ordered = nlohmann::ordered_json;
  Ordered vocab = Ordered::object(), merges = Ordered::array();
  // Appends to the underlying vector, because operator[] of an ordered_json searches all keys first.
  auto& entries = vocab.get_ref<Ordered::object_t&>();
  for (const auto& [token, id] : vocabulary.vocab) entries.push_back({token, id});
  for (const auto& [left, right] : vocabulary.merges) merges.push_back(left + " " + right);
  const Ordered end_of_text = {{"id", vocabulary.end_of_text.second},
                               {"content", vocabulary.end_of_text.first},
                               {"single_word", false},
                               {"lstrip", false},
                               {"rstrip", false},
                               {"normalized", false},
                               {"special", true}};
  const Ordered byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  const Ordered root = {{"version", "1.0"},
                        {"truncation", nullptr},
                        {"padding", nullptr},
                        {"added_tokens", Ordered::array({end_of_text})},
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
