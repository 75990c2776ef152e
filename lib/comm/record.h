// What a rank communicates: bytes sent, by group and kind, and what it is doing now, which a watchdog reads from
// another thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fp {

enum class CommKind : uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, send, recv, host };
constexpr int kCommKinds = 8;
constexpr const char* name_of(CommKind k) {
  constexpr const char* names[kCommKinds] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all",
                                             "broadcast",  "send",       "recv",           "host"};
  return names[static_cast<int>(k)];
}

struct Traffic {
  int64_t calls = 0, bytes = 0;
  bool operator==(const Traffic&) const = default;
};
// By group name and kind.
using TrafficTable = std::map<std::pair<std::string, CommKind>, Traffic>;

// Thread-safe.
class CommRecord {
 public:
  // One communication: call number `sequence` of its group.
  struct Entry {
    std::string group;
    CommKind kind = CommKind::host;
    int64_t sequence = 0;
  };
  // A communicator of a device, which works off calls by itself while the host goes on: how many were issued to it, and
  // how many it has finished. The name is that of no other communicator of the run.
  struct Lane {
    std::string name;
    int64_t issued = 0, finished = 0;
    bool operator==(const Lane&) const = default;
  };
  // What the rank is doing. `progress` counts every change, so that a standstill shows; `waiting`: inside a
  // communication, which is `entry`; otherwise `entry` is the last one it was in.
  struct Activity {
    std::string phase = "start";
    int64_t step = 0;
    bool waiting = false;
    Entry entry;
    uint64_t progress = 0;
    std::vector<Lane> lanes{};
    std::string error{};  // that communication has met while nobody waited for it; empty: none
  };

  void count(const Entry&, int64_t sent);
  TrafficTable traffic() const;  // since the last reset
  void reset_traffic();

  // The phase of the run ("set-up", "step", "evaluation", "save") and the step it is in.
  void enter_phase(std::string_view phase, int64_t step);
  void tick();  // the rank goes on with its work
  void begin_wait(const Entry&);
  void end_wait();
  // From whoever watches the device; the first error stays.
  void set_lanes(std::vector<Lane>);
  void set_error(const std::string&);
  Activity activity() const;

 private:
  mutable std::mutex mutex_;
  TrafficTable traffic_;
  Activity activity_;
};

}  // namespace fp
