// Helpers for tests of ConfigError messages.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/load.h"

namespace fp {

// Returns the message of the ConfigError that parsing `text` throws; empty if it throws none.
inline std::string error_of(const std::string& text, const std::vector<std::string>& sets = {},
                            DataFolders folders = DataFolders::may_be_missing) {
  try {
    parse_run_spec(text, "run.yaml", sets, folders);
    return "";
  } catch (const ConfigError& e) {
    return e.what();
  }
}

// Matches a message that contains `part`; a failure prints it, so that a table of cases needs no INFO.
inline Catch::Matchers::StdString::ContainsMatcher says(const std::string& part) { return Catch::Contains(part); }

}  // namespace fp
