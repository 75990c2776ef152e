// Checks values of structs against the limits of their fields.
#pragma once

#include <string>

#include "config/fields/decode.h"

namespace fp {

// Treats the values behind `fields` as decode() treats those of a document: adds a problem for every value that is not
// legal, its key to `written.failed`, and replaces it by that of `defaults`, which declares the same fields. All keys
// but the open ones count as written at `place`.
void check_values(const Fields& fields, const Fields& defaults, const Place& place, Written& written,
                  Problems& problems);

// True if a number lies within the limits of a field.
bool is_in_range(double value, const FieldInfo& info);
// Returns "path: 1 is out of range; legal: number from 0 to 1 (1 excluded)".
std::string refusal(const Field& field, const std::string& path, const std::string& what);

}  // namespace fp
