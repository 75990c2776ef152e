// llm.c's GPT-2 model files: 256 int32 of header, then the parameters, each stacked over the layers.
#pragma once

#include <filesystem>

#include "config/run_spec.h"
#include "interop/tensor_files.h"

namespace fp {

// Whether a file begins with the magic number of llm.c models.
bool is_llmc_model(const std::filesystem::path&);

// Adds its tensors to `files` under our names, one for each layer, padded vocabulary rows left out. DataError for an
// unknown version, sizes beyond all reason or a file of another length than its header needs.
ModelSection open_llmc_model(const std::filesystem::path&, TensorFiles& files);

}  // namespace fp
