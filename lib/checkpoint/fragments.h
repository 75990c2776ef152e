// Fragments as boxes in host memory, and fingerprints of tensors that do not depend on how the tensor is divided.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/hdf5.h"
#include "model/param_store.h"

namespace fp {

// Largest number of elements of a parameter that are copied through host memory at a time.
constexpr int64_t kBlockElements = int64_t{2} << 20;  // 8 MiB

// Returns the window of host memory that holds exactly this box.
h5::Window dense_window(const Box&);

// Fingerprint of a tensor: the sum over its elements, modulo 2^64, of
//   mix(index * 0x9E3779B97F4A7C15 + bits)
// with the row-major index in the logical tensor, the element's IEEE bits, and splitmix64's finalizer as mix
// (Philox::mix). The fingerprints of parts add up to that of the whole, in any order. This function returns the
// contribution of `box`, read from host memory.
uint64_t fingerprint(const Shape& logical, const Box& box, const float* data, const h5::Window& window);
// Returns the contribution of `values`: the elements of `box` from its element `first` on, in row-major order. Runs on
// the calling thread only.
uint64_t fingerprint(const Shape& logical, const Box& box, int64_t first, std::span<const float> values);

// Fingerprints of the elements that this rank owns, by parameter and by name of each state that the store has. Summed
// over all ranks, modulo 2^64, they are the model's.
using Fingerprints = std::vector<std::map<std::string, uint64_t>>;
Fingerprints fingerprints(const ParamStore&, Ops&);

// Formats a 64-bit number as 16 hex digits.
std::string hex(uint64_t value);

}  // namespace fp
