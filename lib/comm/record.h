// CommRecord: the traffic of a rank (bytes sent, by group and kind) and its current activity, which a watchdog reads
// from another thread.
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
  int64_t between_nodes = 0;  // part of `bytes` that leaves this rank's node; host values are left out
  bool operator==(const Traffic&) const = default;
};
// Traffic by group name and kind.
using TrafficTable = std::map<std::pair<std::string, CommKind>, Traffic>;
// Returns the bytes of all groups that leave the rank's node.
int64_t sent_between_nodes(const TrafficTable&);

// Thread-safe.
class CommRecord {
 public:
  // One communication: call number `sequence` of its group.
  struct Entry {
    std::string group;
    CommKind kind = CommKind::host;
    int64_t sequence = 0;
  };
  // Progress of a device communicator, which executes calls while the host continues: the number of calls issued to it
  // and the number it has finished. The name is unique among the communicators of the run.
  struct Lane {
    std::string name;
    int64_t issued = 0, finished = 0;
    bool operator==(const Lane&) const = default;
  };
  // The current activity of the rank. `progress` is incremented with every change, so that a watchdog can detect a
  // stall. `waiting`: the rank is inside the communication `entry`; otherwise `entry` is the last one it was in.
  struct Activity {
    std::string phase = "start";
    int64_t step = 0;
    bool waiting = false;
    Entry entry;
    uint64_t progress = 0;
    std::vector<Lane> lanes{};
    std::string error{};  // error of a communication that nobody was waiting for; empty: none
  };

  void count(const Entry&, int64_t sent, int64_t between_nodes = 0);
  TrafficTable traffic() const;  // since the last reset
  void reset_traffic();

  // Sets the phase of the run ("set-up", "data", "step", "evaluation", "save", "farewell") and its step.
  void enter_phase(std::string_view phase, int64_t step);
  void tick();  // reports that the rank makes progress
  void begin_wait(const Entry&);
  void end_wait();
  // Called by the thread that watches the device. The first error is kept.
  void set_lanes(std::vector<Lane>);
  void set_error(const std::string&);
  Activity activity() const;

 private:
  mutable std::mutex mutex_;
  TrafficTable traffic_;
  Activity activity_;
};

}  // namespace fp
