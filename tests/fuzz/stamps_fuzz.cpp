// Any bytes as stamps of a prepared folder, sealed with the right hash: nothing, or what prints and parses again.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/filesystem.h"
#include "data/stamps.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string lines(reinterpret_cast<const char*>(data), size);
  fp::Stamps::parse(lines);
  const fp::Stamps sealed = fp::Stamps::parse(lines + "end " + fp::hash_bytes(lines.data(), lines.size()) + "\n");
  const std::string text = sealed.text();
  FP_CHECK(fp::Stamps::parse(text).text() == text, "stamps that do not parse as they print: {}", text);
  return 0;
}
