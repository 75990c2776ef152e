// What a ConfigError says.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/load.h"

namespace fp {

// The message of the ConfigError that reading this ends in; "" if it ends in none.
inline std::string error_of(const std::string& text, const std::vector<std::string>& sets = {},
                            DataFolders folders = DataFolders::may_be_missing) {
  try {
    parse_run_spec(text, "run.yaml", sets, folders);
    return "";
  } catch (const ConfigError& e) {
    return e.what();
  }
}

// Named by its text on failure, so that a table of cases needs no INFO.
inline Catch::Matchers::StdString::ContainsMatcher says(const std::string& part) { return Catch::Contains(part); }

}  // namespace fp
