// How a rank's part of the model passes through host memory, and the fingerprint that is the same however a tensor was
// cut.
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
#include "model/param_store.h"

namespace fp {

constexpr const char* name_of(StateKind k) {
  constexpr std::array<const char*, 3> names = {"param", "exp_avg", "exp_avg_sq"};
  return names[static_cast<size_t>(k)];
}
std::optional<StateKind> state_kind(std::string_view name);

// Elements of a parameter that pass through host memory at a time.
constexpr int64_t kBlockElements = int64_t{2} << 20;  // 8 MiB

// A fragment as a box of the logical tensor, and host memory that holds just that box.
inline h5::Box box_of(const Fragment& f) { return {f.start, f.count}; }
h5::Window dense_window(const Fragment&);

// Fingerprint of a tensor: the sum over its elements, modulo 2^64, of
//   mix(index * 0x9E3779B97F4A7C15 + bits)
// with the row-major index in the logical tensor, the element's IEEE bits, and splitmix64's finalizer as mix
// (Philox::mix). Sums of parts add up to that of the whole, in any order. This one adds up `box` out of host memory.
uint64_t fingerprint(const Shape& logical, const h5::Box& box, const float* data, const h5::Window& window);
// What the elements of a box from number `first` on, in row-major order, contribute to it; on this thread.
uint64_t fingerprint(const Shape& logical, const h5::Box& box, int64_t first, std::span<const float> values);

// Fingerprints of the elements that this rank owns: by parameter, of the kinds that are there. Those of all ranks sum
// up, wrapping, to the model's.
using KindPrints = std::map<StateKind, uint64_t>;
using Fingerprints = std::vector<KindPrints>;
Fingerprints fingerprints(const ParamStore&, Ops&);

// A 64-bit number as 16 hex digits.
std::string hex(uint64_t value);

}  // namespace fp
