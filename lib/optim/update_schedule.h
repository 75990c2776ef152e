// UpdateSchedule: which subgroups of offloaded state are updated on the device and which by the host's cores, and the
// order in which they and their copies are issued. It is data: the executor runs it, update_time.h times it.
//
// The state of all subgroups is in host memory. A subgroup that is updated on the device is fetched, updated and
// written back. One that is updated on the host gets its gradient from the device, and the device its new weights. The
// copies of a lane, the updates of the device and those of the host each run in the order of the list, beside the
// others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace fp {

enum class UpdatePlace : uint8_t { device, host };

// The first three are those of subgroups on the device, the others those of subgroups on the host, in their order.
enum class UpdateKind : uint8_t { fetch, update_on_device, write_back, send_gradient, update_on_host, send_weights };
std::string_view name_of(UpdateKind);

struct UpdateAction {
  UpdateKind kind = UpdateKind::fetch;
  size_t subgroup = 0;
  size_t buffer = 0;  // on the device: of the state; on the host: of the gradient and the weights

  bool operator==(const UpdateAction&) const = default;
};

// Numbers of buffers. On the device, 3 keep both lanes and the update busy: one is filled, one updated, one written
// back. On the host, gradients arrive two subgroups ahead, and weights leave two subgroups later.
struct UpdateBuffers {
  size_t device = 3, host = 4;
};

struct UpdateSchedule {
  std::vector<UpdatePlace> places;  // by subgroup
  std::vector<UpdateAction> actions;
  UpdateBuffers buffers;     // that the actions use
  bool synchronous = false;  // each action waits for the one before
  bool operator==(const UpdateSchedule& o) const { return places == o.places && actions == o.actions; }
};

// Assigns subgroups, of these numbers of elements, to places such that every run of consecutive subgroups has about
// this share (0 to 1) of its elements on the device. With equal subgroups and a share of 1/k, those at k-1, 2k-1, ...
// are on the device.
std::vector<UpdatePlace> divide_subgroups(std::span<const int64_t> elements, double device_share);

// Returns a schedule in which device and host update at the same time. `host` buffers are at least 2; with one `device`
// buffer, subgroups on the device take turns in it.
UpdateSchedule interleaved_schedule(std::vector<UpdatePlace>, UpdateBuffers = {});

// Returns the schedule of ZeRO-Offload: first all gradients go to the host, which then updates all subgroups, whose
// weights are sent last; nothing overlaps.
UpdateSchedule synchronous_schedule(size_t subgroups);

// Throws InternalError unless every subgroup is updated once, where its place is, after its copies in and before its
// copies out, each of which happens once, and no buffer is filled before its previous content has left.
void verify(const UpdateSchedule&);

}  // namespace fp
