// Untrusted text as `data prepare` reads it: plain, as JSON lines, compressed, as conversations and as preferences.
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "data/prepare/document_encoder.h"
#include "data/text/corpus.h"
#include "data/tokenizer/bpe_trainer.h"
#include "data/tokenizer/tokenizer.h"
#include "target.h"

namespace {

// Byte-level BPE without merges, with the special tokens of phi-3's chat template.
const fp::Tokenizer& chat_tokenizer() {
  static const auto tokenizer = [] {
    fp::BpeTrainerOptions bytes;
    bytes.vocab_size = 257;
    auto json = nlohmann::json::parse(write_tokenizer_json(vocabulary_of(fp::train_bpe({}, bytes))));
    int id = 300;
    for (const char* content : {"<|system|>", "<|user|>", "<|assistant|>", "<|end|>"})
      json["added_tokens"].push_back({{"id", id++},
                                      {"content", content},
                                      {"single_word", false},
                                      {"lstrip", false},
                                      {"rstrip", true},
                                      {"normalized", false},
                                      {"special", true}});
    return fp::parse_tokenizer(json.dump(), "tokenizer");
  }();
  return *tokenizer;
}

void prepare(const std::filesystem::path& file, const std::string& documents, fp::DataKind kind) {
  fp::EncodingOptions options;
  options.kind = kind;
  options.chat = {"phi3", true};
  const fp::DocumentEncoder encode(chat_tokenizer(), options);
  fp::CorpusOptions corpus;
  corpus.files = {file};
  corpus.documents = documents;
  corpus.max_document = uint64_t{1} << 20;
  fp::CorpusReader reader(corpus);
  fp::DocumentBatch batch;
  while (reader.next(size_t{1} << 16, batch)) {
    const fp::EncodedBatch encoded = encode(batch, 0);
    const size_t samples = batch.size() * (kind == fp::DataKind::preferences ? 2 : 1);
    FP_CHECK(encoded.documents.size() == samples, "{} of {} documents", encoded.documents.size(), samples);
    FP_CHECK(encoded.documents.empty() || encoded.documents.back().end == encoded.ids.size(), "ids of no document");
    FP_CHECK(kind == fp::DataKind::text || encoded.loss_mask.size() == encoded.ids.size(), "a mask of another length");
  }
}

}  // namespace

FP_FUZZ_TARGET(corpus) {
  using fp::DataKind;
  const std::string_view text = fp_fuzz::text_of(data, size);
  fp_fuzz::clear_scratch();
  for (const char* ending : {"", ".gz", ".zst"}) {
    const auto lines = fp_fuzz::write_scratch(std::string("lines.jsonl") + ending, text);
    for (const DataKind kind : {DataKind::text, DataKind::chat, DataKind::preferences})
      fp_fuzz::accept_or_refuse([&] { prepare(lines, "blank-line", kind); });
    const auto plain = fp_fuzz::write_scratch(std::string("plain.txt") + ending, text);
    for (const char* documents : {"file", "lines:2", "blank-line", "start:^\\w+:1 "})
      fp_fuzz::accept_or_refuse([&] { prepare(plain, documents, DataKind::text); });
  }
  return 0;
}
