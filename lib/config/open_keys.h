// Open keys: the keys that a run spec leaves to the planner (parallel.auto).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "config/fields/decode.h"
#include "config/run_spec.h"

namespace fp {

struct OpenKey {
  std::string_view name;  // name in parallel.auto
  std::string_view path;  // dotted path in the spec
};

// Returns all keys that the planner may choose, in the order of parallel.auto in a resolved spec.
std::span<const OpenKey> open_keys();

// True if the spec leaves the key `name` to the planner.
bool is_open(const RunSpec&, std::string_view name);

// If a section is written as `SECTION: auto`, makes it an empty map, so that keys can be set beside it, and returns the
// place of that `auto`.
std::optional<Place> take_auto(YamlNode& root, std::string_view section);
// Adds a name to the list parallel.auto.
void add_to_auto(YamlNode& root, const std::string& name, const Place&);

// Expands `all` and `pipeline` in parallel.auto to the names they stand for, adds the keys of the section memory if it
// has a budget, unless the list is written as [], and removes keys that were written or that other keys make
// meaningless. Marks the rest as open in `written`, so that checks skip them until they have values.
void resolve_open_keys(RunSpec&, Written&);

// Throws ConfigError if one of `names` (empty: any key) is open. `who` names the command that cannot plan, for the
// message.
void require_planned(const RunSpec&, const std::string& who, std::span<const std::string_view> names = {});

}  // namespace fp
