// manifest.json of a checkpoint: its training state, parameters and files, with the hashes and fingerprints that verify
// them (docs/checkpoint-format.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "base/shape.h"
#include "checkpoint/fragments.h"
#include "sharding/mesh.h"

namespace fp {

struct CheckpointFile {
  std::string name;  // inside the folder
  uint64_t bytes = 0;
  std::string xxh3;  // XXH3-128 of the whole file, 32 hex digits

  bool holds_tensors() const { return name.starts_with("rank-"); }
};

struct StoredState {
  std::string name;  // of its datasets: "param", "exp_avg"
  uint64_t fingerprint = 0;
  DType dtype = DType::f32;

  bool operator==(const StoredState&) const = default;
};

struct CheckpointParam {
  std::string name;
  Shape shape;                      // logical
  std::vector<StoredState> states;  // the parameter itself, "param", is the first

  const StoredState* find(std::string_view state) const;  // nullptr: it is not stored
  bool operator==(const CheckpointParam&) const = default;
};

struct CheckpointManifest {
  static constexpr int kVersion = 3;  // the latest; all from 1 on are read
  static constexpr const char* kFileName = "manifest.json";
  static constexpr const char* kIndexName = "index.h5";
  static constexpr const char* kTableName = "index.bin";
  static constexpr const char* kConfigName = "config.yaml";
  static constexpr const char* kTokenizerName = "tokenizer.json";
  static constexpr const char* kCarriedPrefix = "carried-";  // prefix of files that came with the imported model

  std::string created_by;  // program and version
  std::string created_at;  // UTC, ISO 8601
  int64_t step = 0;
  uint64_t consumed_samples = 0;
  double last_loss = 0;  // NaN when there is none, which is null in the file
  nlohmann::json extra;  // an object with the trainer's own keys
  Mesh mesh;             // of the run that saved it; any mesh may load it
  std::vector<CheckpointParam> parameters;
  std::vector<CheckpointFile> files;  // all files of the folder except manifest.json

  // Returns the version that is written: 3 if a state is not fp32; else 2, which earlier programs read too.
  int version() const;
  const CheckpointFile* file(std::string_view name) const;
  const CheckpointParam* parameter(std::string_view name) const;
  uint64_t bytes() const;  // of all files
};

// Returns the exact bytes of manifest.json, including its own hash.
std::string serialize(const CheckpointManifest& manifest);
// Thrown for an intact checkpoint of a later format version than this program reads.
struct NewerFormatError : ConfigError {
  NewerFormatError(std::filesystem::path checkpoint, const std::string& version, const nlohmann::json& created_by);
  std::filesystem::path folder;
};

// Reads and checks the manifest of a checkpoint folder. Throws DataError when the file is missing, has another format
// or an unknown version, is not byte for byte what was written, or holds invalid values: names must be unique and
// without '/', '%' and control characters, shapes must have one to five dimensions of at least 1, and every number must
// fit its type. Throws NewerFormatError when it is intact but of a later version.
CheckpointManifest read_checkpoint_manifest(const std::filesystem::path& folder);
// Does the same for the file's content.
CheckpointManifest parse_checkpoint_manifest(const std::string& text, const std::filesystem::path& folder);

}  // namespace fp
