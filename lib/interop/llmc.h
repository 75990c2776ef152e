// Reads llm.c's GPT-2 model files: 256 int32 of header, then the parameters, each stacked over the layers.
#pragma once

#include <filesystem>

#include "config/run_spec.h"
#include "interop/layout.h"
#include "interop/tensor_files.h"

namespace fp {

// Returns whether a file begins with the magic number of llm.c models.
bool is_llmc_model(const std::filesystem::path&);

// The content of a file's header.
struct LlmcModel {
  ModelSection section;
  int64_t vocabulary_rows = 0;  // rows of the embedding, with padding
  bool bf16 = false;
};
// Reads the header. Throws DataError for an unknown version or implausible sizes.
LlmcModel read_llmc_model(const std::filesystem::path&);

// The file contains no names to compare with. Throws ConfigError for a mapping whose sources are not llm.c's own, in
// its order.
void require_llmc_mapping(const MappingSpec&);

// Returns the tensors of the file under the names of the layout, in the order of its rules. Throws DataError when the
// file has not exactly the length that they need.
TensorFiles lay_out_llmc_model(const std::filesystem::path&, const LlmcModel&, const ParamTable&, const Layout&);

}  // namespace fp
