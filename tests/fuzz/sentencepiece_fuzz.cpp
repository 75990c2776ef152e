// Arbitrary bytes as a SentencePiece .model file.
#include <string>

#include "base/error.h"
#include "data/tokenizer/source.h"
#include "target.h"

FP_FUZZ_TARGET(sentencepiece) {
  const std::string model(reinterpret_cast<const char*>(data), size);
  try {
    const auto tokenizer = fp::make_tokenizer(fp::source_of(fp::TokenizerSource::Format::sentencepiece, model), "fuzz");
    tokenizer->decode(tokenizer->encode("Hello  w\u00F6rld</s> \u2581 12\xFF\n"));
  } catch (const fp::UserError&) {
  }
  return 0;
}
