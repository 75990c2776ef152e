// Checks that ranks that should hold identical state really do. This reveals a flipped bit, a race or a broken link
// before the loss does.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <tuple>

#include "model/model.h"

namespace fp {

// Ops::bit_sums() of parts of a rank's state, taken when an optimizer update wrote them, which saves a pass over the
// state.
class StateSums {
 public:
  using Sums = std::array<int32_t, 2>;

  // `slot`: index of a slot of the table, or ParamTable::slot_count() for the weights rounded to the compute type.
  void add(const ParamPart&, int slot, const Sums&);
  // Returns the sums of exactly this part; none if it was not summed.
  std::optional<Sums> find(const ParamPart&, int slot) const;
  bool empty() const { return sums_.empty(); }

 private:
  std::map<std::tuple<ParamId, int64_t, int64_t, int>, Sums> sums_;
};

// Adds the sums of a part of a tensor that begins at element `first` of it.
constexpr void add_bit_sums(StateSums::Sums& total, const StateSums::Sums& part, int64_t first) {
  const auto add = [](int32_t& to, uint32_t x) { to = static_cast<int32_t>(static_cast<uint32_t>(to) + x); };
  add(total[0], static_cast<uint32_t>(part[0]));
  add(total[1], static_cast<uint32_t>(part[1]) + 2 * static_cast<uint32_t>(first) * static_cast<uint32_t>(part[0]));
}

// Returns the bit sums of a flat tensor, of which a piece at a time passes through the device if it is in host memory.
StateSums::Sums bit_sums_of(const ModelEnv&, const Tensor&);

// Compares weights, master weights and the optimizer's states over the ranks that hold copies of them: what ZeRO keeps
// whole over the data group, replicated parameters over the tensor group, kv heads over the tensor ranks that hold
// copies of them, and an embedding that the first and last pipeline rank share. Collective over the world; call between
// steps. Throws DeviceError on all ranks, naming a parameter and two ranks that differ.
//
// `known`: sums of the state as it is now. The check makes one pass over the rest of the state, sends 64 bytes from
// each rank to each group, and exchanges hashes of every parameter only on a difference. It takes 8 bytes of the arena
// per parameter and slot.
void check_replicas(Model&, Ops&, const StateSums& known = {});

}  // namespace fp
