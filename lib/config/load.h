// Reads and writes run specs. All mistakes of a file are reported at once, in one ConfigError.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/run_spec.h"

namespace fp {

// Whether the data folders that a spec names must exist. A spec from a checkpoint may name data that is not on this
// machine, which does not matter for generating text.
enum class DataFolders { must_exist, may_be_missing };

// Reads a run spec, checks and resolves it. Its keys override those of the model preset that it names; each of `sets`
// ("section.key=value" or "data.train[0].weight=2", where the value is YAML) overrides both, and later sets override
// earlier ones.
RunSpec load_run_spec(const std::filesystem::path& file, const std::vector<std::string>& sets = {},
                      DataFolders folders = DataFolders::must_exist);

// The two steps of load_run_spec: reading the text of a file, and parsing a text. `file` names the text in messages and
// is the base of relative paths; the text may differ from the file, as ranks parse the text that rank 0 has sent them.
std::string read_run_spec(const std::filesystem::path& file);
RunSpec load_run_spec(std::string_view text, const std::filesystem::path& file, const std::vector<std::string>& sets,
                      DataFolders folders = DataFolders::must_exist);

// As load_run_spec, from text; error messages use `name` in place of the file. If `name` is empty, the text was made by
// code, and messages name keys without line numbers. Empty text is an error; `{}` is a spec of defaults.
RunSpec parse_run_spec(std::string_view text, std::string_view name, const std::vector<std::string>& sets = {},
                       DataFolders folders = DataFolders::may_be_missing);

// Parses the spec of a checkpoint, which states its whole model: reads no other file, whatever model.init_from or
// parallel.cluster name, and refuses a model.preset.
RunSpec parse_stored_spec(std::string_view text, std::string_view name);

// Returns the resolved model section of the preset `name`. It is not checked as a whole, since a preset may leave out
// required keys.
ModelSection load_preset(const std::string& name);

// Fills in the keys that follow from others: kv_heads, head_dim, gpt's ffn and position encoding, model.name,
// run.directory, and train.steps from train.tokens. Clears model.preset and train.tokens, whose values the spec then
// contains in other keys. Idempotent. train.epochs stays (data/sampling/epochs.h).
void resolve(RunSpec& spec);

// Checks a resolved spec that was made or changed by code, as a file is checked. Throws ConfigError with all problems.
void validate(const RunSpec& spec);

// Checks what only training needs. Throws ConfigError if data.train is empty.
void validate_for_training(const RunSpec& spec);

// Returns the spec as YAML with every key, except those left to the planner; parses to an equal spec.
std::string dump(const RunSpec& spec);

// Returns every key that has a value, with the value as YAML on one line, in the order of dump():
// {"data.train[0].path", "corpus"}.
std::vector<std::pair<std::string, std::string>> flatten(const RunSpec& spec);

}  // namespace fp
