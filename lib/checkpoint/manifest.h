// manifest.json of a checkpoint: what it is, what it holds and how to check it (docs/checkpoint-format.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/shape.h"
#include "checkpoint/fragments.h"
#include "plan/mesh.h"

namespace fp {

struct CheckpointFile {
  std::string name;  // inside the folder
  uint64_t bytes = 0;
  std::string xxh3;  // XXH3-128 of the whole file, 32 hex digits

  bool holds_tensors() const { return name.starts_with("rank-"); }
};

struct CheckpointParam {
  std::string name;
  Shape shape;              // logical
  KindPrints fingerprints;  // one for each kind that is stored

  bool operator==(const CheckpointParam&) const = default;
};

struct CheckpointManifest {
  static constexpr int kVersion = 1;
  static constexpr const char* kFileName = "manifest.json";
  static constexpr const char* kIndexName = "index.h5";
  static constexpr const char* kConfigName = "config.yaml";
  static constexpr const char* kTokenizerName = "tokenizer.json";
  static constexpr const char* kCarriedPrefix = "carried-";  // of files that came with the model

  std::string created_by;  // program and version
  std::string created_at;  // UTC, ISO 8601
  int64_t step = 0;
  uint64_t consumed_samples = 0;
  double last_loss = 0;  // NaN when there is none; null in the file
  nlohmann::json extra;  // the trainer's own, an object
  Mesh mesh;             // of the run that saved it; says nothing about who may load it
  std::vector<CheckpointParam> parameters;
  std::vector<CheckpointFile> files;  // all of the folder but this one

  const CheckpointFile* file(std::string_view name) const;
  const CheckpointParam* parameter(std::string_view name) const;
  uint64_t bytes() const;    // of all files
  bool has_moments() const;  // of every parameter
};

// The exact bytes of manifest.json, its own hash included.
std::string serialize(const CheckpointManifest& manifest);
// A checkpoint that is intact, but of a later version of the format than this program reads.
struct NewerFormatError : ConfigError {
  NewerFormatError(std::filesystem::path checkpoint, const std::string& version, const nlohmann::json& created_by);
  std::filesystem::path folder;
};

// DataError when the file is missing, of another format or an unknown version, or not byte for byte what was written.
CheckpointManifest read_checkpoint_manifest(const std::filesystem::path& folder);

}  // namespace fp
