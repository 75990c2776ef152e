// The declarations of every field of a mapping file.
#pragma once

#include <span>
#include <string_view>

#include "config/field.h"
#include "config/mapping.h"
#include "config/run_spec_fields.h"

namespace fp {

std::span<const std::string_view> names_of(PartPattern);
std::span<const std::string_view> names_of(TensorTransform);

void declare(Fields& f, MappingRule& s);
void declare(Fields& f, MappingSpec& s);

}  // namespace fp
