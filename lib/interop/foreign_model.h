// A model that another program wrote, opened in place: its description, its tensors and the files that belong to it.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "checkpoint/tensor_reader.h"
#include "config/run_spec.h"
#include "interop/layout.h"
#include "interop/tensor_files.h"

namespace fp {

struct ForeignOptions {
  WeightFormat format = WeightFormat::hf;  // llm.c files are recognised by themselves
  std::filesystem::path config;            // config.json; empty: the one beside the weights
};

class ForeignModel : public TensorReader {
 public:
  // A Hugging Face folder, a .safetensors file or an llm.c model file. DataError for what is missing or malformed; the
  // tensors are compared with the model only by require().
  explicit ForeignModel(const std::filesystem::path&, const ForeignOptions& = {});

  const ModelSection& section() const { return section_; }
  const std::filesystem::path& path() const { return path_; }
  // The folder that other files of the model lie in.
  const std::filesystem::path& folder() const { return folder_; }

  // DataError listing every parameter that is missing, misshapen or not in floating point, and every tensor that
  // belongs to no parameter. A stored copy of a tied head must be the embedding, bit for bit.
  void require(const ParamTable&) const;
  void read(const std::string& param, StateKind, const h5::Box&, float* data, const h5::Window&) override;

  // Changes when the weights do: names, shapes, sizes, and a few hundred KiB of each file.
  std::string identity() const;

  // What an export needs to write the same files again: the format, each tensor's element type (as JSON text, under the
  // name kOriginName), config.json, generation settings, tokenizer files, model code. By file name.
  std::map<std::string, std::string> carried() const;
  static constexpr const char* kOriginName = "origin.json";

 private:
  struct Place {
    const StoredTensor* tensor;
    StoredAs as;
  };
  const StoredTensor* find(const StoredAs&) const;
  Place place_of(const std::string& param) const;
  std::vector<std::string> problems_of(const ParamTable&) const;
  std::string head_name() const;  // of an untied head
  void check_tied_copy() const;
  std::string origin() const;

  std::filesystem::path path_, folder_;
  WeightFormat format_;
  ModelSection section_;
  TensorFiles files_;
  ParamTable table_;  // of section_, whole
};

}  // namespace fp
