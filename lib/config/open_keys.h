// Keys that a run spec leaves to the planner: parallel.auto.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "config/decode.h"
#include "config/run_spec.h"

namespace fp {

struct OpenKey {
  std::string_view name;  // in parallel.auto
  std::string_view path;  // in the spec
};

// All that the planner may choose, in the order of parallel.auto in a resolved spec.
std::span<const OpenKey> open_keys();

bool is_open(const RunSpec&, std::string_view name);

// `parallel: auto` becomes {auto: [all]}, so that keys can be set beside it.
void expand_auto(YamlNode& root);

// `all` and `pipeline` become the names they stand for; keys that were written, or that others make meaningless, drop
// out. Checks leave the rest alone: their values are not known yet.
void resolve_open_keys(RunSpec&, Written&);

// ConfigError when one of these is open (by default: any), for `who` does not plan.
void require_planned(const RunSpec&, const std::string& who, std::span<const std::string_view> names = {});

}  // namespace fp
