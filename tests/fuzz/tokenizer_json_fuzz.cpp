// Everything that parse_tokenizer() reads: tokenizer.json, the serialized form of the other kinds, and tiktoken rank
// files.
#include <string>

#include "base/error.h"
#include "data/tokenizer/tokenizer.h"
#include "target.h"

FP_FUZZ_TARGET(tokenizer_json) {
  try {
    const auto tokenizer = fp::parse_tokenizer(std::string(reinterpret_cast<const char*>(data), size), "fuzz");
    for (const auto special : {fp::SpecialText::as_token, fp::SpecialText::as_text})
      tokenizer->decode(tokenizer->encode("Hello  w\u00F6rld<|endoftext|> \u2581 12\xFF\n", special));
    fp::parse_tokenizer(tokenizer->serialized(), "again");
  } catch (const fp::UserError&) {
  }
  return 0;
}
