// Arbitrary bytes as stamps of a prepared folder, with the right hash: parsed as empty, or equal after a round trip.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "data/formats/stamps.h"
#include "io/filesystem.h"
#include "target.h"

FP_FUZZ_TARGET(stamps) {
  const std::string lines(reinterpret_cast<const char*>(data), size);
  fp::Stamps::parse(lines);
  const fp::Stamps sealed = fp::Stamps::parse(lines + "end " + fp::hash_bytes(lines.data(), lines.size()) + "\n");
  const std::string text = sealed.text();
  FP_CHECK(fp::Stamps::parse(text).text() == text, "stamps that do not parse as they print: {}", text);
  return 0;
}
