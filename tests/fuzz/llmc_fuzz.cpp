// Any bytes as the files of llm.c: token files and multiple-choice questions.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.h"
#include "data/flat_dataset.h"
#include "data/multiple_choice.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    fp::read_llmc_header(bytes, "input");
  } catch (const fp::UserError&) {
  }
  try {
    fp::parse_multiple_choice(bytes, "input");
  } catch (const fp::UserError&) {
  }
  return 0;
}
