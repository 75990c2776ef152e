// Arbitrary bytes as a Megatron .idx: refused, or an index whose documents lie inside its stream.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.h"
#include "data/formats/megatron.h"
#include "target.h"

FP_FUZZ_TARGET(megatron_idx) {
  try {
    const fp::BytesInMemory bytes(std::as_bytes(std::span(data, size)));
    const fp::MegatronIndex index(bytes, "input");
    uint64_t begin = 0;
    for (uint64_t d = 0; d <= index.documents(); ++d) {
      const uint64_t end = index.document_begin(d);
      FP_CHECK(begin <= end && end <= index.tokens(), "document {} begins at {} of {}", d, end, index.tokens());
      begin = end;
    }
  } catch (const fp::UserError&) {
  }
  return 0;
}
