// Copies: asynchronous copies between device memory and host memory, beside the ops. There is a lane for each
// direction; the copies of a lane run one after the other, those of the two lanes at the same time.
//
// Order. A copy starts after all ops that were issued before it. Later ops do not wait for it, unless wait() is called:
// no op may use memory that a copy still fills, and no memory that a copy uses may be released or be the destination of
// an unordered copy. All of this is checked. The host never waits, except on backends that compute on the calling
// thread.
//
// Host memory that a copy has filled may be read by the host after wait() and Ops::synchronize().
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "tensor/arena.h"

namespace fp {

enum class CopyLane : uint8_t { to_host, to_device };
constexpr int kCopyLanes = 2;
constexpr std::string_view name_of(CopyLane l) { return l == CopyLane::to_host ? "to the host" : "to the device"; }
constexpr size_t index_of(CopyLane l) { return static_cast<size_t>(l); }

// Identifies a copy by its number in its lane, from 1; 0: none. All earlier copies of the lane end before it.
struct CopyTicket {
  CopyLane lane = CopyLane::to_host;
  int64_t number = 0;

  bool covers(const CopyTicket& earlier) const { return lane == earlier.lane && number >= earlier.number; }
};

struct CopyTotal {
  int64_t copies = 0, bytes = 0;
};

// Receives the copies of a rank, in order. The time model implements it.
class CopyObserver {
 public:
  virtual ~CopyObserver() = default;
  // A copy is issued that may not begin before the time `after`. Returns the time at which it ends.
  virtual double copy_started(CopyLane, int64_t bytes, double after) = 0;
  // The ops wait until that time.
  virtual void copy_waited(double end) = 0;
};

// The speed of copies on backends where the device is the host, for experiments and tests.
struct CopySettings {
  double bytes_per_s = 0;                       // of a lane; 0: as fast as memory allows
  std::function<void(CopyLane)> before_copy{};  // called by the lane's thread before each copy, for example to wait
};

class Copies : public MemoryGuard {
 public:
  Copies() = default;
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  // Starts to copy between a tensor in device memory and one in host memory of the same type and number of elements,
  // also after the copy `after`. Returns at once.
  CopyTicket start(const Tensor& dst, const Tensor& src, const CopyTicket& after = {});
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
  // Implemented by a backend: starts a copy; makes later ops wait for a copy that was started.
  virtual void begin(const Copy&) = 0;
  virtual void order_ops_after(const CopyTicket&) = 0;

 private:
  struct Unfinished {
    Copy copy;
    double end = 0;  // according to the observer
  };
  std::vector<Unfinished> unfinished_;  // not waited for
  std::array<CopyTotal, kCopyLanes> totals_{};
  CopyObserver* observer_ = nullptr;
};

// Copies at once, where the device is the host.
class SynchronousCopies final : public Copies {
 private:
  void begin(const Copy&) override;
  void order_ops_after(const CopyTicket&) override {}
};

}  // namespace fp
