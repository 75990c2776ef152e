// A model that another program wrote, opened in place: its description, its tensors and the files that belong to it.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "checkpoint/tensor_reader.h"
#include "config/run_spec.h"
#include "interop/assembly.h"
#include "interop/layout.h"
#include "interop/tensor_files.h"

namespace fp {

struct ForeignOptions {
  std::string format;            // of the mapping; empty: llmc for an llm.c file, else hf
  std::string mapping;           // a mapping's name or file, instead of that of the format
  std::filesystem::path config;  // config.json; empty: the one beside the weights
};

class ForeignModel : public TensorReader {
 public:
  // A folder or file of safetensors with its config.json, or an llm.c model file. DataError for what is missing or
  // malformed, ConfigError for a mapping that is; the tensors are compared with the model only by require().
  explicit ForeignModel(const std::filesystem::path&, const ForeignOptions& = {});

  const ModelSection& section() const { return section_; }
  const std::filesystem::path& path() const { return path_; }
  // The folder that other files of the model lie in.
  const std::filesystem::path& folder() const { return folder_; }

  // DataError listing every parameter that is missing, misshapen or not in floating point, and every tensor that
  // belongs to no parameter. Copies (of a tied embedding, in parts) must be equal, bit for bit.
  void require(const ParamTable&) const;
  void read(const std::string& param, StateKind, const h5::Box&, float* data, const h5::Window&) override;

  // Changes when the weights do: names, shapes, sizes, and a few hundred KiB of each file.
  std::string identity() const;

  // What an export needs to write the same files again: the format, each tensor's element type (as JSON text, under the
  // name kOriginName), config.json, generation settings, tokenizer files, model code. By file name.
  std::map<std::string, std::string> carried() const;
  static constexpr const char* kOriginName = "origin.json";

 private:
  // Its parts, in order; none: it is missing. DataError where a part is missing that should have it.
  std::vector<StoredPart> parts_of(const StoredAs&) const;
  const StoredTensor* find(const TensorFiles&, const StoredAs&, int64_t part = 0) const;
  Assembly assemble(const StoredAs&) const;
  std::vector<std::string> problems_of(const ParamTable&) const;
  std::string origin() const;

  std::filesystem::path path_, folder_;
  std::string format_;
  bool llmc_ = false;
  ModelSection section_;
  ParamTable table_;  // of section_, whole
  MappingSpec mapping_;
  Layout layout_;                  // of table_
  std::vector<TensorFiles> sets_;  // one; or one for each part
};

}  // namespace fp
