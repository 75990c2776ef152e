// A model written by another program, read in place: its configuration, its tensors and the files beside them.
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
  std::string format;            // the mapping's format; empty: llmc for an llm.c file, else hf
  std::string mapping;           // name or file of a mapping to use instead of the format's
  std::filesystem::path config;  // path of config.json; empty: the one beside the weights
};

class ForeignModel : public TensorReader {
 public:
  // Opens a folder or file of safetensors with its config.json, or an llm.c model file. Throws DataError for missing or
  // malformed files, ConfigError for such a mapping. Does not compare the tensors with the model; require() does.
  explicit ForeignModel(const std::filesystem::path&, const ForeignOptions& = {});

  const ModelSection& section() const { return section_; }
  const std::filesystem::path& path() const { return path_; }
  // Returns the folder of the files beside the weights.
  const std::filesystem::path& folder() const { return folder_; }

  // Throws DataError listing the parameters that are missing, have the wrong shape or are not floating point, and the
  // tensors that belong to no parameter. Copies (of a tied embedding; of replicated parts) must be equal bit for bit.
  void require(const ParamTable&) const;
  // All parameters of section().
  const ParamTable& table() const { return table_; }
  // Returns the shape of a parameter; nullopt: the model has none of this name.
  std::optional<Shape> shape_of(const std::string& param) const;
  void read(const std::string& param, const std::string& state, const Box&, float* data, const h5::Window&) override;

  // Returns a hash that changes with the weights: it covers names, shapes, sizes, and a few hundred KiB of each file.
  std::string identity() const;

  // Returns, as file name -> content, what an export needs to write the same files again: the format and each tensor's
  // element type (as JSON text, under the name kOriginName), config.json, generation settings, tokenizer files, model
  // code.
  std::map<std::string, std::string> carried() const;
  static constexpr const char* kOriginName = "origin.json";

 private:
  // Returns the parts of a tensor in order; none when it is missing. Throws DataError when only some parts have it.
  std::vector<StoredPart> parts_of(const StoredAs&) const;
  const StoredTensor* find(const TensorFiles&, const StoredAs&, int64_t part = 0) const;
  Assembly assemble(const StoredAs&) const;
  std::vector<std::string> problems_of(const ParamTable&) const;
  std::string origin() const;

  std::filesystem::path path_, folder_;
  std::string format_;
  bool llmc_ = false;
  ModelSection section_;
  ParamTable table_;  // all parameters of section_
  MappingSpec mapping_;
  Layout layout_;                  // the layout of table_
  std::vector<TensorFiles> sets_;  // one, or one for each part
};

}  // namespace fp
