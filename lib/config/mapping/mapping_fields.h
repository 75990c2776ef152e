// Declares every field of a mapping file.
#pragma once

#include <span>
#include <string_view>

#include "config/fields/field.h"
#include "config/mapping/mapping.h"
#include "config/run_spec_fields.h"

namespace fp {

EnumNames names_of(PartPattern);
EnumNames names_of(TensorTransform);

void declare(Fields& f, MappingRule& s);
void declare(Fields& f, MappingSpec& s);

}  // namespace fp
