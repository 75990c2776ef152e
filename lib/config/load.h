// Reading and writing run specs. Every mistake of a file is reported at once, in one ConfigError.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/run_spec.h"

namespace fp {

// Whether the data folders that a spec names must exist. A spec that comes out of a checkpoint may name data that is
// not on this machine, which does not matter for generating text.
enum class DataFolders { must_exist, may_be_missing };

// Reads a run spec, applies each of `sets` ("section.key=value", "data.train[0].weight=2", or a YAML flow value) over
// it and the model preset under it, checks everything, and resolves it. Later sets win over earlier ones.
RunSpec load_run_spec(const std::filesystem::path& file, const std::vector<std::string>& sets = {},
                      DataFolders folders = DataFolders::must_exist);

// The same from text; `name` stands for the file in messages, which name keys alone where it is empty: of a text that
// no person has. Empty text is an empty spec only if there are sets.
RunSpec parse_run_spec(std::string_view text, std::string_view name, const std::vector<std::string>& sets = {},
                       DataFolders folders = DataFolders::may_be_missing);

// The model section of a preset, by name, resolved; not checked as a whole, since a preset may leave keys to be given.
ModelSection load_preset(const std::string& name);

// Fills in what follows from other keys: kv_heads, head_dim, gpt's ffn and position encoding, model.name,
// run.directory; clears model.preset, whose values are in the spec by now. Doing it twice changes nothing.
void resolve(RunSpec& spec);

// Checks a resolved spec that was made or changed by code, as a file would be checked. ConfigError with all problems.
void validate(const RunSpec& spec);

// What only training needs: ConfigError if there is nothing to train on.
void validate_for_training(const RunSpec& spec);

// The whole spec as YAML with every key; reads back to an equal spec.
std::string dump(const RunSpec& spec);

// Every key that has a value, with that as YAML on one line: {"data.train[0].path", "corpus"}, in the order of dump().
std::vector<std::pair<std::string, std::string>> flatten(const RunSpec& spec);

}  // namespace fp
