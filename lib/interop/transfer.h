// Models in and out of the universal checkpoint: `fptrain checkpoint import` and `export`. Both stream: memory stays
// below two of the model's tensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/checkpoint.h"
#include "interop/element.h"
#include "interop/foreign_model.h"

namespace fp {

struct ImportOptions {
  std::filesystem::path from;  // what ForeignModel opens
  std::filesystem::path to;    // the checkpoint to make; must not exist
  ForeignOptions source;
  int64_t sliding_window = -1;  // phi3: keys a query sees; -1: as config.json says
  bool tokenizer = true;        // read the tokenizer beside the weights; DataError when it is one we cannot read
  std::string version;          // of fptrain
};

// Makes a checkpoint of step 0, weights only. DataError leaves nothing behind.
void import_model(const ImportOptions&);

// The run spec that an imported model's checkpoint carries.
RunSpec spec_of(const ForeignModel&);
// The tokenizer in the model's folder, serialized; empty: there is none.
std::string tokenizer_of(const ForeignModel&);

struct ExportOptions {
  std::filesystem::path to;              // the folder to make; must not exist
  std::string format = "hf";             // of the mapping that names the tensors
  std::string mapping = "";              // a mapping's name or file, instead of that of the format
  std::optional<ElementType> type;       // of all tensors; none: as imported, else the run's compute type
  uint64_t shard_bytes = 5'000'000'000;  // a file holds no more, unless one tensor does
};

struct ExportSummary {
  int files = 0;
  uint64_t bytes = 0;
  int tensors = 0;
  bool tokenizer = false;
};

// Writes a Hugging Face folder (with tensors as the mapping says): safetensors, config.json, generation_config.json,
// tokenizer files. What came with an imported model leaves with it. DataError for a value that the element type cannot
// hold, and for a model that no Hugging Face class can express; nothing is left behind then.
ExportSummary export_model(const Checkpoint&, const ExportOptions&);

}  // namespace fp
