// Converts models to and from checkpoints: `fptrain checkpoint import` and `export`. Both work as a stream, with less
// than two of the model's tensors in memory.
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
  std::filesystem::path from;  // a path that ForeignModel opens
  std::filesystem::path to;    // the checkpoint to create; must not exist
  ForeignOptions source;
  int64_t sliding_window = -1;  // phi3: number of keys a query attends to; -1: as in config.json
  bool tokenizer = true;        // read the tokenizer beside the weights; DataError when it is not supported
  std::string version;          // version of fptrain
};

// Writes a checkpoint of step 0 that contains weights only. Leaves nothing behind when it throws DataError.
void import_model(const ImportOptions&);

// Returns the run spec for the checkpoint of an imported model.
RunSpec spec_of(const ForeignModel&);
// Returns the serialized tokenizer of the model's folder; empty when it has none.
std::string tokenizer_of(const ForeignModel&);

struct ExportOptions {
  std::filesystem::path to;              // the folder to create; must not exist
  std::string format = "hf";             // format of the mapping that names the tensors
  std::string mapping = "";              // name or file of a mapping to use instead of the format's
  std::optional<ElementType> type;       // element type; nothing: as imported, else the run's compute type
  uint64_t shard_bytes = 5'000'000'000;  // maximum bytes of tensors per file, unless one tensor is larger
};

struct ExportSummary {
  int files = 0;
  uint64_t bytes = 0;
  int tensors = 0;
  bool tokenizer = false;
};

// Writes a Hugging Face folder with tensors as the mapping says: safetensors, config.json, generation_config.json,
// tokenizer files. Files that came with an imported model are included. Throws DataError for a value that the element
// type cannot represent, and for a model that no Hugging Face class can express; leaves nothing behind then.
ExportSummary export_model(const Checkpoint&, const ExportOptions&);

}  // namespace fp
