// How a rank's part of the model maps onto logical tensors: which boxes it writes, in which blocks they stream through
// host memory, and the fingerprint that is the same however a tensor was cut.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/hdf5.h"
#include "model/params.h"

namespace fp {

// What is stored of every parameter. All fp32.
enum class StateKind : uint8_t { param, exp_avg, exp_avg_sq };
constexpr std::array<StateKind, 3> kStateKinds = {StateKind::param, StateKind::exp_avg, StateKind::exp_avg_sq};
constexpr const char* name_of(StateKind k) {
  constexpr std::array<const char*, 3> names = {"param", "exp_avg", "exp_avg_sq"};
  return names[static_cast<size_t>(k)];
}
std::optional<StateKind> state_kind(std::string_view name);

// The fp32 flat buffer of a kind; empty when the store does not hold it.
const Tensor& flat_of(const ParamStore&, StateKind);

// The slabs that this rank writes: those it holds, less copies that a lower tensor-parallel rank also holds; slabs that
// touch in the logical and in the local tensor are joined.
std::vector<Slab> owned_slabs(const ParamTable&, ParamId);

// Rows [first, first + count) of a parameter's local tensor, a few MiB of them.
struct RowBlock {
  int64_t first = 0, count = 0;
};
// Calls visit for each block of the local tensor in order.
void for_each_block(const Param&, const std::function<void(const RowBlock&)>& visit);

// What a slab and a block have in common.
struct Overlap {
  h5::Box logical;    // in the logical tensor
  h5::Window window;  // in the block's host memory
};
// Nothing when they do not meet.
std::optional<Overlap> overlap(const Param&, const Slab&, const RowBlock&);

// Fingerprint of a tensor: the sum over its elements, modulo 2^64, of
//   mix(index * 0x9E3779B97F4A7C15 + bits)
// with the row-major index in the logical tensor, the element's IEEE bits, and splitmix64's finalizer as mix
// (Philox::mix). Sums of parts add up to that of the whole, in any order. This one adds up `box` out of host memory.
uint64_t fingerprint(const Shape& logical, const h5::Box& box, const float* data, const h5::Window& window);

// Fingerprints of the elements that this rank owns: by parameter, of the kinds that are there. Those of all ranks sum
// up, wrapping, to the model's.
using KindPrints = std::map<StateKind, uint64_t>;
using Fingerprints = std::vector<KindPrints>;
Fingerprints fingerprints(const ParamStore&, Ops&);

// A 64-bit number as 16 hex digits.
std::string hex(uint64_t value);

}  // namespace fp
