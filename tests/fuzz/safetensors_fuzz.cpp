#include <algorithm>
#include <cstdint>

#include "base/error.h"
#include "interop/safetensors.h"
#include "target.h"

// An accepted header can be written, and reading it again gives an equal one.
FP_FUZZ_TARGET(safetensors) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  // The data is never read, so the file may be as long as the header's first tensors need.
  for (const uint64_t file_bytes : {uint64_t{size}, uint64_t{size} + 24, uint64_t{1} << 40}) try {
      fp::SafetensorsHeader header = fp::parse_safetensors(bytes, file_bytes, "input");
      const std::string written = fp::lay_out_safetensors(header);
      uint64_t end = 0;
      for (const auto& [name, e] : header.tensors) end = std::max(end, e.end);
      const fp::SafetensorsHeader again = fp::parse_safetensors(written, written.size() + end, "written");
      if (!(again == header)) __builtin_trap();
    } catch (const fp::UserError&) {
    }
  return 0;
}
