// Copies: asynchronous copies between device memory and host memory, and ops that the host's cores run on host memory,
// beside the device's ops. There is a lane for each direction and one for the host's ops; the work of a lane runs one
// after the other, that of different lanes at the same time.
//
// Order. A copy starts after all ops of the device that were issued before it; an op of the host need not. Later ops do
// not wait for either, unless wait() is called: no op may use memory that a copy still fills, and no memory that is
// used in a lane may be released or be written by unordered work of another. All of this is checked. The host never
// waits, except on backends that compute on the calling thread.
//
// Host memory that a lane has written may be read by the host after wait() and Ops::synchronize().
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "ops/calls/call.h"
#include "tensor/arena.h"

namespace fp {

enum class CopyLane : uint8_t { to_host, to_device, on_host };
constexpr int kCopyLanes = 2;  // of copies: the first ones
constexpr int kLanes = 3;
constexpr std::string_view name_of(CopyLane l) {
  constexpr std::string_view kNames[kLanes] = {"to the host", "to the device", "on the host"};
  return kNames[static_cast<int>(l)];
}
constexpr size_t index_of(CopyLane l) { return static_cast<size_t>(l); }

// Identifies a copy or an op of the host by its number in its lane, from 1; 0: none. All earlier ones of the lane end
// before it.
struct CopyTicket {
  CopyLane lane = CopyLane::to_host;
  int64_t number = 0;
};

// In the lane of the host's ops: their number, and the bytes that they read and write.
struct CopyTotal {
  int64_t copies = 0, bytes = 0;
};

// Receives the copies of a rank, in order. The time model implements it.
class CopyObserver {
 public:
  virtual ~CopyObserver() = default;
  // An op of the host is issued that may not begin before the time `after`. Returns the time at which it ends.
  virtual double host_op_started(const OpWork&, double after) = 0;
  // A copy is issued that may not begin before the time `after`. Returns the time at which it ends.
  virtual double copy_started(CopyLane, int64_t bytes, double after) = 0;
  // The ops wait until that time.
  virtual void copy_waited(double end) = 0;
};

// The speed of lanes on backends where the device is the host, for experiments and tests.
struct CopySettings {
  std::array<double, kLanes> bytes_per_s{};  // by lane; for ops, bytes that they read and write; 0: no limit
  std::function<void(CopyLane)>
      before_copy{};  // called by the lane's thread before each copy or op, for example to wait
};

class Copies : public MemoryGuard {
 public:
  Copies() = default;
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  // Starts to copy between a tensor in device memory and one in host memory of the same type and number of elements,
  // also after the copy `after`. Returns at once.
  CopyTicket start(const Tensor& dst, const Tensor& src, const CopyTicket& after = {});
  // Starts an op on these tensors in host memory, also after the copy `after`: Ops::start_on_host() calls it.
  CopyTicket start_on_host(const OpWork&, const std::vector<Tensor>&, std::function<void()> run,
                           const CopyTicket& after);
  // Makes ops that are issued from now on wait for a copy (no wait for ticket 0), all earlier ones of its lane, and the
  // copies after which these were started.
  void wait(const CopyTicket&);
  // The same for all copies.
  void wait_for_all();

  // Whether a copy that was not waited for uses some of these bytes; whether one fills them.
  bool in_use(const void* data, size_t bytes) const override;
  bool fills(const void* data, size_t bytes) const;
  bool idle() const { return unfinished_.empty(); }
  const CopyTotal& total(CopyLane l) const { return totals_[index_of(l)]; }
  void observe(CopyObserver* observer) { observer_ = observer; }  // null: no observer

 protected:
  struct Copy {
    CopyTicket ticket, after;
    void* dst;
    const void* src;
    size_t bytes;
  };
  struct HostOp {
    CopyTicket ticket, after;
    std::function<void()> run;
    size_t bytes;  // that it reads and writes
  };
  // Implemented by a backend: starts a copy, or an op of the host; makes later ops wait for one that was started.
  virtual void begin(const Copy&) = 0;
  virtual void begin(HostOp) = 0;
  virtual void order_ops_after(const CopyTicket&) = 0;

 private:
  struct Use {
    const void* data;
    size_t bytes;
    bool written;
  };
  struct Unfinished {
    CopyTicket ticket, after;
    std::vector<Use> uses;
    double end = 0;  // according to the observer
  };
  // By lane: the number of the last work that has ended. ended_with() adds what that work came after.
  using Ended = std::array<int64_t, kLanes>;
  Ended ended_with(Ended) const;
  // Checks that the work may run beside what is unfinished, and returns when the observer says that its `after` ends.
  double check_order(const Unfinished&) const;

  std::vector<Unfinished> unfinished_;  // not waited for
  std::array<CopyTotal, kLanes> totals_{};
  CopyObserver* observer_ = nullptr;
};

// Copies at once, where the device is the host.
class SynchronousCopies final : public Copies {
 private:
  void begin(const Copy&) override;
  void begin(HostOp op) override { op.run(); }
  void order_ops_after(const CopyTicket&) override {}
};

}  // namespace fp
