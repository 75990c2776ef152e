#include "base/error.h"
#include "config/validate.h"

namespace fp {

void check_communication(const RunSpec& s, Checker& check) {
  const CommunicationSection& c = s.communication;
  const auto legal = [&](int64_t bits, const std::string& key) {
    check.require(bits == 0 || bits == 4 || bits == 8, {"communication." + key},
                  fmt::format("communication.{} = {}; legal: 0, 4, 8", key, bits));
  };
  legal(c.weight_bits, "weight_bits");
  legal(c.gradient_bits, "gradient_bits");
  legal(c.node_gradient_bits, "node_gradient_bits");
  check.require(c.block % 8 == 0, {"communication.block"},
                fmt::format("communication.block = {}; legal: a multiple of 8", c.block));
  const int64_t zero = s.parallel.zero_stage;
  check.require(!c.by_nodes || zero > 0, {"communication.by_nodes", "parallel.zero_stage"},
                "communication.by_nodes is for the shards of parallel.zero_stage 1 to 3, not 0");
  if (c.weight_differences) {
    check.require(c.weight_bits > 0, {"communication.weight_differences", "communication.weight_bits"},
                  "communication.weight_differences without communication.weight_bits; legal bits: 4, 8");
    check.require(zero > 0, {"communication.weight_differences", "parallel.zero_stage"},
                  "communication.weight_differences is for the updated weights of parallel.zero_stage 1 to 3, not 0");
    check.require(zero < 3 || c.node_weights, {"communication.weight_differences", "communication.node_weights"},
                  "communication.weight_differences with parallel.zero_stage 3 needs communication.node_weights=true");
    check.require(s.precision.compute == DType::bf16, {"communication.weight_differences", "precision.compute"},
                  "communication.weight_differences needs precision.compute bf16: with fp32, weights are updated where "
                  "ranks compute with them");
    check.require(s.memory.offload.weights == Offload::none,
                  {"communication.weight_differences", "memory.offload.weights"},
                  "communication.weight_differences is for weights on the device, not with memory.offload.weights");
  } else {
    check.require(c.weight_bits == 0 || zero == 3, {"communication.weight_bits", "parallel.zero_stage"},
                  fmt::format("communication.weight_bits is for the gathers of parallel.zero_stage 3, not {}, or for "
                              "communication.weight_differences",
                              zero));
  }
  check.require(!c.node_weights || zero == 3, {"communication.node_weights", "parallel.zero_stage"},
                fmt::format("communication.node_weights is for the gathers of parallel.zero_stage 3, not {}", zero));
  check.require(c.gradient_bits == 0 || zero > 0, {"communication.gradient_bits", "parallel.zero_stage"},
                "communication.gradient_bits is for sums to shards, of parallel.zero_stage 1 to 3, not 0");
  // With max_gradient_error, the planner chooses gradient_bits, and may choose 0: these keys then have no effect.
  const auto needs_bits = [&](bool used, const std::string& key) {
    check.require(!used || c.gradient_bits > 0 || c.max_gradient_error > 0,
                  {"communication." + key, "communication.gradient_bits", "communication.max_gradient_error"},
                  fmt::format("communication.{} has no effect without communication.gradient_bits; remove it", key));
  };
  needs_bits(c.node_gradient_bits > 0, "node_gradient_bits");
  needs_bits(c.rotate_gradients, "rotate_gradients");
  needs_bits(c.error_feedback > 0, "error_feedback");
  check.require(c.error_feedback == 0 || s.train.check_repeats == 0,
                {"communication.error_feedback", "train.check_repeats"},
                "communication.error_feedback cannot be used with train.check_repeats, because a repeated sum would "
                "add other errors and differ from the first");
  check.require(
      !c.rotate_gradients || c.block % 32 == 0, {"communication.rotate_gradients", "communication.block"},
      fmt::format("communication.rotate_gradients with communication.block = {}; legal: a multiple of 32", c.block));
}

}  // namespace fp
