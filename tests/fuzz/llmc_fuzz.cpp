// Arbitrary bytes as llm.c files (models, tokens, multiple-choice questions): refused, or within the file's size.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.h"
#include "data/formats/flat_dataset.h"
#include "data/formats/multiple_choice.h"
#include "target.h"

FP_FUZZ_TARGET(llmc) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const fp::LlmcHeader h = fp::read_llmc_header(fp::BytesInMemory(bytes), "input");
    FP_CHECK(h.tokens <= size, "{} tokens in {} bytes", h.tokens, size);
  } catch (const fp::UserError&) {
  }
  try {
    for (const fp::MultipleChoice& m : fp::parse_multiple_choice(bytes, "input"))
      FP_CHECK(m.label >= 0 && static_cast<size_t>(m.label) < m.completions.size(), "label {} of {} completions",
               m.label, m.completions.size());
  } catch (const fp::UserError&) {
  }
  return 0;
}
