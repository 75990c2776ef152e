// How another program names, cuts and orders the parameters of a model: configs/mappings/*.yaml, or a person's own
// file. Read in both directions: imports go from source to target, exports back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "config/run_spec.h"

namespace fp {

// How the parts of a tensor, where a program stores it in several, make one: the words of universal checkpoints.
enum class PartPattern : uint8_t {
  unique,      // one part alone has it
  replicated,  // all have the same
  fragment,    // each has a share of one dimension
  average,     // each has its own; their mean counts
  vocabulary,  // each has some rows, and those beyond the vocabulary are padding
};

// How a logical [rows, columns] tensor lies on file.
enum class TensorTransform : uint8_t {
  same,
  transposed,    // [columns, rows]: GPT-2's Conv1D
  rotary_pairs,  // row (head, half, i) is stored as row (head, i, half): Meta's wq and wk
};

struct MappingRule {
  std::string source;   // NamePattern of theirs
  std::string target;   // and of our parameter
  std::string same_as;  // in models without the target, the parameter that the source is a copy of; empty: of none
  PartPattern pattern = PartPattern::unique;
  int64_t dim = 0;                         // fragment: of the source; -1: as the shapes of the parts show
  std::vector<std::string> sub_fragments;  // fragment: relative lengths of what is cut one by one; empty: all at once
  TensorTransform transform = TensorTransform::same;
};

constexpr std::string_view kPartNumber = "part";

struct MappingSpec {
  std::string name;  // of the file, for messages
  Family family = Family::gpt;
  std::string files;  // NamePattern, with {part}, of the files that hold one part each; empty: parts are in names
  std::vector<MappingRule> rules;
  std::vector<std::string> ignore;  // NamePatterns of what holds nothing trained
};

// ConfigError with all mistakes of the file. What is read can be inverted: no name stands for two parameters or two
// tensors, and the numbers of either name say the other.
MappingSpec load_mapping(const std::filesystem::path&);
// The same from text; `name` stands for the file in messages.
MappingSpec parse_mapping(std::string_view text, const std::string& name);

// The mapping of `mapping` (a name in mappings/ of config_folders(), or a file; relative to the working directory), or,
// where that is empty, `format`-`family`. ConfigError with what is there when it is not, or is for another family.
MappingSpec choose_mapping(const std::string& mapping, std::string_view format, Family family);

}  // namespace fp
