#include "data/prepare/document_encoder.h"

#include <xxhash.h>

#include <nlohmann/json.hpp>

#include "base/parallel.h"

namespace fp {

std::string_view sample_text(const DocumentBatch& batch, size_t i, DataKind kind, std::string& scratch) {
  return kind == DataKind::text ? batch.text(i, scratch) : batch.raw(i);
}

uint64_t sample_hash(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

DocumentEncoder::DocumentEncoder(const Tokenizer& tokenizer, const EncodingOptions& options)
    : options_(options), eot_(tokenizer.eot()) {
  const SpecialText special = options.parse_special ? SpecialText::as_token : SpecialText::as_text;
  for (int t = 0; t < max_threads(); ++t)
    if (options.kind == DataKind::text)
      texts_.push_back(tokenizer.make_encoder(special));
    else
      chats_.push_back(std::make_unique<ChatEncoder>(tokenizer, options.chat));
}

EncodedBatch DocumentEncoder::operator()(const DocumentBatch& batch, int thread) const {
  EncodedBatch result;
  std::string scratch;
  const auto t = static_cast<size_t>(thread);
  for (size_t i = 0; i < batch.size(); ++i) {
    if (options_.kind != DataKind::text) {
      append_chat(batch, i, *chats_[t], result);
      continue;
    }
    const std::string_view text = batch.text(i, scratch);
    if (!text.empty()) {
      texts_[t]->append(text, result.ids);
      result.ids.push_back(eot_);
    }
    result.documents.push_back({result.ids.size(), text.size(), sample_hash(text)});
  }
  return result;
}

void DocumentEncoder::append_chat(const DocumentBatch& batch, size_t i, ChatEncoder& encoder,
                                  EncodedBatch& result) const {
  const std::string where = batch.place(i);
  const auto object = batch.object(i);
  const auto append = [&](const std::vector<Message>& messages, Answers answers) {
    encoder.append(messages, answers, where, result.ids, result.loss_mask);
    uint64_t bytes = 0;
    for (const Message& m : messages) bytes += m.content.size();
    result.documents.push_back({result.ids.size(), bytes, sample_hash(batch.raw(i))});
  };
  if (options_.kind == DataKind::chat) return append(parse_conversation(object, where), Answers::all);
  const Preference p = parse_preference(object, where);
  for (const std::string* answer : {&p.chosen, &p.rejected}) {
    auto messages = p.prompt;
    messages.push_back({"assistant", *answer});
    append(messages, Answers::last);
  }
}

}  // namespace fp
