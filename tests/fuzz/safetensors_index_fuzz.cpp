#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "base/error.h"
#include "interop/safetensors.h"
#include "interop/tensor_files.h"
#include "target.h"

namespace {

void write_safetensors(const std::string& file, const std::vector<std::string>& tensors) {
  fp::SafetensorsHeader header;
  for (const std::string& name : tensors) header.tensors[name] = {"F32", {2}, 0, 0};
  const std::string first = fp::lay_out_safetensors(header);
  fp_fuzz::write_scratch(file, first + std::string(8 * tensors.size(), '\0'));
}

}  // namespace

// Arbitrary bytes as model.safetensors.index.json beside two valid files with three tensors. An accepted index names no
// file outside the folder, and each of its tensors can be read.
FP_FUZZ_TARGET(safetensors_index) {
  static const bool ready =
      (write_safetensors("model-1.safetensors", {"a", "b"}), write_safetensors("model-2.safetensors", {"c"}), true);
  static_cast<void>(ready);
  fp_fuzz::write_scratch("model.safetensors.index.json", fp_fuzz::text_of(data, size));
  fp_fuzz::accept_or_refuse([] {
    const fp::TensorFiles files = fp::TensorFiles::open_safetensors(fp_fuzz::scratch());
    for (const auto& [name, t] : files.tensors()) {
      FP_CHECK(files.path(t.file).parent_path() == fp_fuzz::scratch(), "{} is in {}", name,
               files.path(t.file).string());
      std::array<std::byte, 8> bytes;
      files.read(t.file, t.offset, bytes);
    }
  });
  return 0;
}
