#include "optim/update_schedule.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace fp {
namespace {

constexpr size_t kSteps = 3;  // in, update, out
constexpr std::array kOnDevice = {UpdateKind::fetch, UpdateKind::update_on_device, UpdateKind::write_back};
constexpr std::array kOnHost = {UpdateKind::send_gradient, UpdateKind::update_on_host, UpdateKind::send_weights};

std::vector<size_t> subgroups_at(std::span<const UpdatePlace> places, UpdatePlace place) {
  std::vector<size_t> list;
  for (size_t i = 0; i < places.size(); ++i)
    if (places[i] == place) list.push_back(i);
  return list;
}

}  // namespace

std::string_view name_of(UpdateKind kind) {
  constexpr std::array<std::string_view, 6> kNames = {"fetch",         "update on the device", "write back",
                                                      "send gradient", "update on the host",   "send weights"};
  return kNames[static_cast<size_t>(kind)];
}

std::vector<UpdatePlace> divide_subgroups(std::span<const int64_t> elements, double device_share) {
  FP_CHECK(device_share >= 0 && device_share <= 1, "a device share of {}", device_share);
  constexpr double kRounding = 1e-9;  // shares such as 1/3 are not exact
  std::vector<UpdatePlace> places;
  double due = 0;  // elements that the device lacks of its share
  for (const int64_t n : elements) {
    const auto size = static_cast<double>(n);
    due += device_share * size;
    const bool on_device = device_share > 0 && due >= size * (1 - kRounding);
    if (on_device) due -= size;
    places.push_back(on_device ? UpdatePlace::device : UpdatePlace::host);
  }
  return places;
}

UpdateSchedule interleaved_schedule(std::vector<UpdatePlace> places, UpdateBuffers buffers) {
  FP_CHECK(buffers.device >= 1 && buffers.host >= 2, "{} device and {} host buffers", buffers.device, buffers.host);
  UpdateSchedule s{std::move(places), {}, buffers};
  const std::vector<size_t> device = subgroups_at(s.places, UpdatePlace::device),
                            host = subgroups_at(s.places, UpdatePlace::host);
  const auto add = [&s](UpdateKind kind, const std::vector<size_t>& list, size_t i, size_t of) {
    if (i < list.size()) s.actions.push_back({kind, list[i], i % of});
  };
  const auto on_device = [&](UpdateKind kind, size_t i) { add(kind, device, i, buffers.device); };
  const auto on_host = [&](UpdateKind kind, size_t i) { add(kind, host, i, buffers.host); };
  const size_t ahead = buffers.host / 2, behind = buffers.host - ahead;
  const bool turns = buffers.device == 1;
  on_device(UpdateKind::fetch, 0);
  for (size_t i = 0; i < ahead; ++i) on_host(UpdateKind::send_gradient, i);
  size_t d = 0, h = 0;
  for (const UpdatePlace place : s.places)
    if (place == UpdatePlace::device) {
      if (!turns) on_device(UpdateKind::fetch, d + 1);
      on_device(UpdateKind::update_on_device, d);
      on_device(UpdateKind::write_back, d);
      if (turns) on_device(UpdateKind::fetch, d + 1);
      ++d;
    } else {
      if (h >= behind) on_host(UpdateKind::send_weights, h - behind);
      on_host(UpdateKind::send_gradient, h + ahead);
      on_host(UpdateKind::update_on_host, h);
      ++h;
    }
  for (size_t i = h - std::min(h, behind); i < h; ++i) on_host(UpdateKind::send_weights, i);
  return s;
}

UpdateSchedule synchronous_schedule(size_t subgroups) {
  UpdateSchedule s{std::vector(subgroups, UpdatePlace::host), {}, {.device = 0, .host = subgroups}, true};
  for (const UpdateKind kind : kOnHost)
    for (size_t i = 0; i < subgroups; ++i) s.actions.push_back({kind, i, i});
  return s;
}

void verify(const UpdateSchedule& s) {
  constexpr size_t kFree = ~size_t{0};
  std::array<std::vector<size_t>, 2> users = {std::vector(s.buffers.device, kFree), std::vector(s.buffers.host, kFree)};
  std::vector<size_t> done(s.places.size());  // actions of the subgroup
  for (const UpdateAction& a : s.actions) {
    const auto wrong = [&](std::string_view why) {
      throw InternalError(fmt::format("update schedule: {} of subgroup {} in buffer {}: {}", name_of(a.kind),
                                      a.subgroup, a.buffer, why));
    };
    if (a.subgroup >= s.places.size()) wrong("no such subgroup");
    const UpdatePlace place = s.places[a.subgroup];
    const auto& order = place == UpdatePlace::device ? kOnDevice : kOnHost;
    std::vector<size_t>& buffers = users[static_cast<size_t>(place)];
    size_t& step = done[a.subgroup];
    if (step == kSteps) wrong("its update has ended");
    if (order[step] != a.kind) wrong(fmt::format("expected {}", name_of(order[step])));
    if (a.buffer >= buffers.size()) wrong("no such buffer");
    size_t& user = buffers[a.buffer];
    if (step == 0 && user != kFree) wrong(fmt::format("subgroup {} is still in it", user));
    if (step > 0 && user != a.subgroup) wrong("the subgroup is in another buffer");
    user = ++step == kSteps ? kFree : a.subgroup;
  }
  for (size_t i = 0; i < done.size(); ++i)
    FP_CHECK(done[i] == kSteps, "update schedule: subgroup {} has {} of {} actions", i, done[i], kSteps);
}

}  // namespace fp
