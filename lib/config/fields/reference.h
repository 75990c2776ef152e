// Documentation of run specs, cluster descriptions and mapping files for editors and readers, generated from the field
// declarations.
#pragma once

#include <string>

namespace fp {

// Returns a JSON Schema (draft-07) with the type, default, limits and description of every key; unknown keys are
// refused. yaml-language-server uses it if `# yaml-language-server: $schema=run-spec.schema.json` is a file's first
// line.
std::string run_spec_schema();

// Returns the reference page of run specs, docs/run-spec.md.
std::string run_spec_reference();

// Returns the reference page of cluster descriptions, docs/cluster-spec.md.
std::string cluster_reference();

// Returns the reference page of mapping files, docs/mapping-files.md.
std::string mapping_reference();

// Returns type, default, legal values and meaning of one key ("optimizer.lr") or of every key of a section
// ("optimizer"), formatted for a terminal. Throws ConfigError that names the nearest key if the key is unknown.
std::string explain_key(const std::string& key);

}  // namespace fp
