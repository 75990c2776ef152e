#include <cstdint>

#include "base/error.h"
#include "config/hf/hf_config.h"
#include "config/model_facts.h"
#include "target.h"

// An accepted config.json can be written, and reading it again gives an equal model.
FP_FUZZ_TARGET(hf_config) {
  try {
    const fp::ModelSection m = fp::model_from_hf_config({reinterpret_cast<const char*>(data), size}, "config.json");
    fp::ModelSection again = fp::model_from_hf_config(fp::to_hf_config(m).dump(), "written");
    // phi-3-small's file states the factor explicitly; in m it may be derived.
    if (again.rope.attention_factor && !m.rope.attention_factor) {
      const double derived = fp::longrope_attention_factor(m.rope, m.max_position);
      FP_CHECK(*again.rope.attention_factor == derived, "factor {} became {}", derived, *again.rope.attention_factor);
      again.rope.attention_factor.reset();
    }
    FP_CHECK(again == m, "the written config.json describes another model");
  } catch (const fp::UserError&) {
  }
  return 0;
}
