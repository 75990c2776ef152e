// Mapping files: how another program names, partitions and lays out the parameters of a model (configs/mappings/*.yaml,
// or a user's own file). One mapping serves both directions: imports convert source to target, exports target to
// source.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "config/run_spec.h"

namespace fp {

// How the parts that another program stores combine into one tensor. The terms are those of DeepSpeed's universal
// checkpoints.
enum class PartPattern : uint8_t {
  unique,      // exactly one part has the tensor
  replicated,  // all parts have equal copies
  fragment,    // each part has an equal slice along one dimension
  average,     // parts have different values, of which the mean is used
  vocabulary,  // each part has some rows; rows beyond the vocabulary are padding
};

// How a logical [rows, columns] tensor is stored in the file.
enum class TensorTransform : uint8_t {
  same,
  transposed,    // [columns, rows]: GPT-2's Conv1D
  rotary_pairs,  // row (head, half, i) is stored as row (head, i, half): Meta's wq and wk
};

struct MappingRule {
  std::string source;   // NamePattern of the other program's tensor
  std::string target;   // NamePattern of this program's parameter
  std::string same_as;  // in models without the target: the parameter that the source duplicates; empty: none
  PartPattern pattern = PartPattern::unique;
  int64_t dim = 0;  // fragment: dimension of the source; -1: derived from the shapes of the parts
  std::vector<std::string> sub_fragments;  // fragment: relative lengths of ranges split separately; empty: one range
  TensorTransform transform = TensorTransform::same;
};

constexpr std::string_view kPartNumber = "part";
constexpr Family kLlmcFamily = Family::gpt;  // of llm.c's model files, which hold GPT-2 only

struct MappingSpec {
  std::string name;  // the file, for messages
  Family family = Family::gpt;
  std::string files;  // NamePattern with {part} of files with one part each; empty: {part} is in tensor names
  std::vector<MappingRule> rules;
  std::vector<std::string> ignore;  // NamePatterns of tensors that are not parameters
};

// Reads a mapping file. Throws ConfigError that lists all of its mistakes. The mapping is invertible: no name matches
// two parameters or two tensors, and source and target have the same numbers, so that each name determines the other.
MappingSpec load_mapping(const std::filesystem::path&);
// As load_mapping, from text; error messages use `name` in place of the file.
MappingSpec parse_mapping(std::string_view text, const std::string& name);

// Loads the mapping `mapping`: a name in mappings/ of config_folders(), or a file relative to the working directory. If
// empty, loads the one named `format`-`family`. Throws ConfigError that lists the legal ones if it does not exist, or
// if it is for another family.
MappingSpec choose_mapping(const std::string& mapping, std::string_view format, Family family);

}  // namespace fp
