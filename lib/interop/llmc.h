// llm.c's GPT-2 model files: 256 int32 of header, then the parameters, each stacked over the layers.
#pragma once

#include <filesystem>

#include "config/run_spec.h"
#include "interop/layout.h"
#include "interop/tensor_files.h"

namespace fp {

// Whether a file begins with the magic number of llm.c models.
bool is_llmc_model(const std::filesystem::path&);

// What a file's header says.
struct LlmcModel {
  ModelSection section;
  int64_t vocabulary_rows = 0;  // with padding
  bool bf16 = false;
};
// DataError for an unknown version or sizes beyond all reason.
LlmcModel read_llmc_model(const std::filesystem::path&);

// The file has no names to compare with: ConfigError for a mapping whose sources are not llm.c's own, in its order.
void require_llmc_mapping(const MappingSpec&);

// Its tensors under the names of the layout, laid out in the order of its rules. DataError for a file of another length
// than they need.
TensorFiles lay_out_llmc_model(const std::filesystem::path&, const LlmcModel&, const ParamTable&, const Layout&);

}  // namespace fp
