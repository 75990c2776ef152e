#include <cstdint>

#include "base/error.h"
#include "config/hf_config.h"
#include "config/model_facts.h"

// A config.json that is accepted can be written, and says the same when it is read again.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const fp::ModelSection m = fp::model_from_hf_config({reinterpret_cast<const char*>(data), size}, "config.json");
    fp::ModelSection again = fp::model_from_hf_config(fp::hf_config_of(m).dump(), "written");
    // phi-3-small's file says the factor outright, which m may leave to be derived.
    if (again.rope.attention_factor && !m.rope.attention_factor) {
      const double derived = fp::longrope_attention_factor(m.rope, m.max_position);
      FP_CHECK(*again.rope.attention_factor == derived, "factor {} became {}", derived, *again.rope.attention_factor);
      again.rope.attention_factor.reset();
    }
    FP_CHECK(again == m, "the written config.json says something else");
  } catch (const fp::UserError&) {
  }
  return 0;
}
