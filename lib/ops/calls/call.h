// Common parts of the calls of ops. A call is a struct of operands, one for each op of base/op_list.h; the headers of
// this folder define them with formulas and shapes.
//
// Conventions. Destinations come first. Tensors are contiguous and row-major; activations and weights are all f32 or
// all bf16 (the compute type); statistics and gradients of parameters are f32; sums are accumulated in f32 or better.
// M = B*T tokens. Linear weights are [N,K] = (out, in). Operands with a default may be left out: an empty tensor is
// none.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/op_list.h"
#include "tensor/tensor.h"

namespace fp {

// Says whether a destination is overwritten or added to.
enum class Write : uint8_t { set, add };

// The work of one call.
struct OpWork {
  std::string_view op;  // "linear", "attention_backward", ...
  double flops = 0,
         bytes = 0;  // multiply-adds count 2, other arithmetic roughly; bytes read plus written, each operand once
  int64_t m = 0, n = 0, k = 0;  // matrix product: tokens, outputs and inputs of the layer; else 0
  DType dtype = DType::f32;     // type of the tensor that is computed; of a matrix product, of its activations
  double scores = 0;            // of attention: the scores that are computed, one for a head, a query and a key
};

namespace calls {

#define FP_OP(Call, name) struct Call;
FP_OPS(FP_OP)
#undef FP_OP

#define FP_OP(Call, name) \
  constexpr std::string_view op_name(const Call&) { return #name; }
FP_OPS(FP_OP)
#undef FP_OP

// check() throws InternalError, naming op and tensor, if shapes or types are not those of the op. cost() returns the
// work of a valid call. Neither accesses the memory of tensors. A fused call has the checks and the costs of its
// parts().
#define FP_OP(Call, name)  \
  void check(const Call&); \
  OpWork cost(const Call&);
FP_UNFUSED_OPS(FP_OP)
#undef FP_OP

}  // namespace calls
}  // namespace fp
