#include "optim/update_time.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "base/error.h"

namespace fp {
namespace {

enum Resource : uint8_t { to_host, to_device, on_device, on_host, converting, kResources };
constexpr double kWeightTraffic = 6;  // bytes that rounding a parameter by itself reads and writes

// Work of one resource. `alone`: seconds without others; `memory`: bytes of host memory that it uses.
struct Task {
  Resource resource = to_host;
  double alone = 0, memory = 0;
  std::vector<size_t> after;  // tasks that end before it starts
  double left = 1;            // of its work
};

// The tasks of a schedule.
class Tasks {
 public:
  Tasks(const UpdateSchedule& s, std::span<const int64_t> elements, const UpdateRates& rates, const UpdateBytes& bytes)
      : schedule_(s), rates_(rates), bytes_(bytes), ends_(s.places.size()) {
    FP_CHECK(elements.size() == s.places.size(), "{} sizes of {} subgroups", elements.size(), s.places.size());
    left_[0].resize(s.buffers.device);
    left_[1].resize(s.buffers.host);
    for (const UpdateAction& a : s.actions) add(a, static_cast<double>(elements[a.subgroup]));
  }
  std::vector<Task> take() { return std::move(tasks_); }

 private:
  using Last = std::optional<size_t>;  // number of a task

  void push(Resource r, double alone, double memory, std::initializer_list<Last> after) {
    Task t{r, alone, memory, {}};
    for (const Last& a : after)
      if (a) t.after.push_back(*a);
    if (schedule_.synchronous && !tasks_.empty()) t.after.push_back(tasks_.size() - 1);
    tasks_.push_back(std::move(t));
  }
  void copy(Resource lane, double bytes, std::initializer_list<Last> after) {
    push(lane, bytes / rates_.link, bytes, after);
  }

  void add(const UpdateAction& a, double n) {
    Last& end = ends_[a.subgroup];  // of the subgroup's previous action
    Last& left = left_[a.kind < UpdateKind::send_gradient ? 0 : 1][a.buffer];
    switch (a.kind) {
      case UpdateKind::fetch:
        copy(to_device, n * (bytes_.state + bytes_.gradient_in), {left, update_});
        break;
      case UpdateKind::update_on_device:
        push(on_device, n / rates_.device_update, 0, {end});
        update_ = tasks_.size() - 1;
        break;
      case UpdateKind::write_back:
        copy(to_host, n * (bytes_.state + bytes_.weights_out), {end, update_});
        break;
      case UpdateKind::send_gradient:
        copy(to_host, n * bytes_.gradient, {left, update_});
        break;
      case UpdateKind::update_on_host: {
        const bool apart = rates_.host_convert > 0;
        push(on_host, n / rates_.host_update, n * (host_traffic(bytes_) + (apart ? 0 : bytes_.weights)), {end});
        if (apart) push(converting, n / rates_.host_convert, n * kWeightTraffic, {tasks_.size() - 1});
        break;
      }
      case UpdateKind::send_weights:
        copy(to_device, n * bytes_.weights, {end, update_});
        break;
    }
    end = tasks_.size() - 1;
    if (a.kind == UpdateKind::write_back || a.kind == UpdateKind::send_weights) left = end;
  }

  const UpdateSchedule& schedule_;
  const UpdateRates& rates_;
  const UpdateBytes& bytes_;
  std::vector<Task> tasks_;
  std::vector<Last> ends_;                 // by subgroup
  std::array<std::vector<Last>, 2> left_;  // by buffer: the copy that emptied it
  Last update_;                            // the last one of the device
};

// Runs the tasks of each resource in order, and returns the total and the busy seconds of the resources.
class Run {
 public:
  Run(std::vector<Task> tasks, double memory) : tasks_(std::move(tasks)), memory_(memory) {
    for (size_t i = 0; i < tasks_.size(); ++i) queues_[tasks_[i].resource].push_back(i);
  }

  UpdateTime run() {
    double now = 0;
    std::vector<size_t> active;
    while (find_active(active)) {
      double demand = 0, step = 0;
      for (const size_t i : active) demand += tasks_[i].alone > 0 ? tasks_[i].memory / tasks_[i].alone : 0;
      const double slow = memory_ > 0 ? std::min(1.0, memory_ / demand) : 1;
      const auto seconds_left = [&](const Task& t) { return t.left * t.alone / (t.memory > 0 ? slow : 1); };
      step = seconds_left(
          tasks_[*std::ranges::min_element(active, {}, [&](size_t i) { return seconds_left(tasks_[i]); })]);
      for (const size_t i : active) {
        Task& t = tasks_[i];
        const double left = seconds_left(t);
        busy_[t.resource] += step;
        t.left = left <= step * (1 + kRounding) ? 0 : t.left * (1 - step / left);
        if (t.left == 0) ++next_[t.resource];
      }
      now += step;
    }
    for (size_t r = 0; r < kResources; ++r)
      FP_CHECK(next_[r] == queues_[r].size(), "an update schedule in which a subgroup waits for ever");
    return {now, busy_[to_host], busy_[to_device], busy_[on_device], busy_[on_host], busy_[converting]};
  }

 private:
  static constexpr double kRounding = 1e-12;

  bool find_active(std::vector<size_t>& active) const {
    active.clear();
    for (size_t r = 0; r < kResources; ++r) {
      if (next_[r] == queues_[r].size()) continue;
      const size_t i = queues_[r][next_[r]];
      if (std::ranges::all_of(tasks_[i].after, [&](size_t a) { return tasks_[a].left == 0; })) active.push_back(i);
    }
    return !active.empty();
  }

  std::vector<Task> tasks_;
  double memory_;
  std::array<std::vector<size_t>, kResources> queues_;
  std::array<size_t, kResources> next_{};
  std::array<double, kResources> busy_{};
};

// Seconds per parameter of each resource: `at(g)`, linear in the share g.
struct Line {
  double host = 0, device = 0;  // at shares 0 and 1
  double at(double g) const { return (1 - g) * host + g * device; }
};

std::vector<Line> lines(const UpdateRates& r, const UpdateBytes& b) {
  std::vector<Line> list = {{1 / r.host_update, 0},
                            {b.weights / r.link, (b.state + b.gradient_in) / r.link},
                            {b.gradient / r.link, (b.state + b.weights_out) / r.link},
                            {0, 1 / r.device_update}};
  if (r.host_convert > 0) list.push_back({1 / r.host_convert, 0});
  const double rounding = r.host_convert > 0 ? kWeightTraffic : b.weights;
  if (r.host_memory > 0)
    list.push_back({(host_traffic(b) + rounding + b.weights + b.gradient) / r.host_memory,
                    (2 * b.state + b.gradient_in + b.weights_out) / r.host_memory});
  return list;
}

double highest(const std::vector<Line>& list, double g) {
  double most = 0;
  for (const Line& l : list) most = std::max(most, l.at(g));
  return most;
}

}  // namespace

UpdateRates bound_by_host_memory(UpdateRates rates, const UpdateBytes& bytes) {
  rates.host_memory = rates.host_update * (host_traffic(bytes) + (rates.host_convert > 0 ? 0 : bytes.weights));
  return rates;
}

UpdateTime simulate(const UpdateSchedule& schedule, std::span<const int64_t> elements, const UpdateRates& rates,
                    const UpdateBytes& bytes) {
  return Run(Tasks(schedule, elements, rates, bytes).take(), rates.host_memory).run();
}

double model_seconds(double device_share, const UpdateRates& rates, const UpdateBytes& bytes) {
  return highest(lines(rates, bytes), device_share);
}

double best_device_share(const UpdateRates& rates, const UpdateBytes& bytes) {
  constexpr int kParts = 32;
  std::vector<double> shares;
  for (int i = 0; i <= kParts; ++i) shares.push_back(static_cast<double>(i) / kParts);
  // The highest of lines is lowest at an end or where two of them meet.
  const std::vector<Line> list = lines(rates, bytes);
  double lowest = 0;
  for (const Line& a : list)
    for (const Line& b : list) {
      const double rise = (a.device - a.host) - (b.device - b.host);
      const double g = rise != 0 ? (b.host - a.host) / rise : 0;
      if (g > 0 && g <= 1 && highest(list, g) < highest(list, lowest)) lowest = g;
    }
  if (highest(list, 1) < highest(list, lowest)) lowest = 1;
  shares.push_back(lowest);
  const std::vector<int64_t> subgroups(2 * kParts, 1 << 24);
  const auto seconds = [&](double g) {
    return simulate(interleaved_schedule(divide_subgroups(subgroups, g)), subgroups, rates, bytes).total;
  };
  double best = 0, least = std::numeric_limits<double>::infinity();
  for (const double g : shares)
    if (const double s = seconds(g); s < least) best = g, least = s;
  return best;
}

}  // namespace fp
