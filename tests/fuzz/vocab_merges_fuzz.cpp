#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"
#include "data/tokenizer/tokenizer.h"
#include "target.h"

// A Hugging Face folder with vocab.json and merges.txt, and with tokenizer_config.json and added_tokens.json if an
// input has that many parts. Parts are separated by NUL bytes, which none of these files may contain.
FP_FUZZ_TARGET(vocab_merges) {
  constexpr std::array kNames = {"vocab.json", "merges.txt", "tokenizer_config.json", "added_tokens.json"};
  fp_fuzz::clear_scratch();
  std::string_view rest = fp_fuzz::text_of(data, size);
  for (size_t part = 0; part < kNames.size(); ++part) {
    const size_t end = part + 1 == kNames.size() ? rest.size() : std::min(rest.find('\0'), rest.size());
    fp_fuzz::write_scratch(kNames[part], rest.substr(0, end));
    if (end == rest.size() && part > 0) break;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  fp_fuzz::accept_or_refuse([] {
    const auto tokenizer = fp::load_tokenizer(fp_fuzz::scratch().string());
    for (const auto special : {fp::SpecialText::as_token, fp::SpecialText::as_text})
      tokenizer->decode(tokenizer->encode("Hello  w\u00F6rld<|endoftext|> 12\xFF\n", special));
    const auto again = fp::parse_tokenizer(tokenizer->serialized(), "again");
    FP_CHECK(again->serialized() == tokenizer->serialized() && again->eot() == tokenizer->eot(), "another tokenizer");
  });
  return 0;
}
