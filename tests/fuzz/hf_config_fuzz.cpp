#include <cstdint>

#include "base/error.h"
#include "config/hf_config.h"

// A config.json that is accepted can be written, and says the same when it is read again.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const fp::ModelSection m = fp::model_from_hf_config({reinterpret_cast<const char*>(data), size}, "config.json");
    fp::ModelSection again = fp::model_from_hf_config(fp::hf_config_of(m).dump(), "written");
    again.rope.attention_factor = m.rope.attention_factor;  // phi-3-small's file says outright what m may leave derived
    if (!(again == m)) __builtin_trap();
  } catch (const fp::UserError&) {
  }
  return 0;
}
