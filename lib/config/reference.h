// What editors and people read about run specs, cluster descriptions and mappings, generated from the field
// declarations.
#pragma once

#include <string>

namespace fp {

// JSON Schema, draft-07: every key with its type, default, limits and description; unknown keys refused. For
// yaml-language-server: `# yaml-language-server: $schema=run-spec.schema.json` as a file's first line.
std::string run_spec_schema();

// The reference page, docs/run-spec.md.
std::string run_spec_reference();

// The reference page of cluster descriptions, docs/cluster-spec.md.
std::string cluster_reference();

// The reference page of import mappings, docs/mapping-files.md.
std::string mapping_reference();

// Type, default, legal values and meaning of one key ("optimizer.lr") or of every key of a section ("optimizer"), for a
// terminal. ConfigError naming the nearest key if there is none.
std::string explain_key(const std::string& key);

}  // namespace fp
