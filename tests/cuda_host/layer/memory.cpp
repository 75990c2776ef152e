#include "cuda_host/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>

#include "base/error.h"
#include "cuda_host/execution.h"
#include "cuda_host/language.h"

namespace fp::cuda::host {

Phases phases;

namespace {

constexpr size_t kGranule = 2;  // bytes per shadow
constexpr size_t kRegion = size_t{4} << 30, kGap = 64 * 1024;
constexpr uint16_t kSeveralWarps = 0xffff, kSeveralInWarp = 0x8000;

enum class State : uint8_t { closed, unwritten, written, forbidden_unwritten, forbidden_written };

struct Shadow {
  uint32_t write_phase, read_phase;
  uint16_t writer, reader;  // thread in the block; a reader may also be one of the kSeveral... marks
  uint8_t write_warp_phase, read_warp_phase;
  State state;
  bool atomic;  // whether the last write was atomic
};
static_assert(sizeof(Shadow) == 16);

template <class T>
T* reserve(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  FP_CHECK(p != MAP_FAILED, "cannot reserve {} bytes of addresses", bytes);
  return static_cast<T*>(p);
}

// A range of addresses with its shadow. Shared memory follows the device memory in one range.
struct Region {
  std::byte* base = reserve<std::byte>(kRegion + kSharedBytes);
  Shadow* shadow = reserve<Shadow>((kRegion + kSharedBytes) / kGranule * sizeof(Shadow));
  size_t top = kGap;
  std::map<size_t, size_t> live;  // offset -> bytes

  bool holds(const void* p) const { return p >= base && p < base + kRegion + kSharedBytes; }
  size_t offset(const void* p) const { return static_cast<size_t>(static_cast<const std::byte*>(p) - base); }
};
Region& region() {
  static Region& r = *new Region;  // never destroyed: devices in other statics free their memory at exit
  return r;
}

size_t opened_shared = 0;  // bytes of shared memory that this block may touch, at most
const std::byte *stacks_begin = nullptr, *stacks_end = nullptr;

void set_state(size_t offset, size_t bytes, State state) {
  Shadow* s = region().shadow + offset / kGranule;
  for (size_t i = 0; i < (bytes + kGranule - 1) / kGranule; ++i) s[i] = Shadow{0, 0, 0, 0, 0, 0, state, false};
}

std::string describe(size_t offset) {
  if (offset >= kRegion) return fmt::format("shared memory, byte {}", offset - kRegion);
  const auto& live = region().live;
  auto it = live.upper_bound(offset);
  if (it == live.begin()) return "no buffer";
  --it;
  const auto [begin, bytes] = *it;
  if (offset < begin + bytes) return fmt::format("byte {} of a buffer of {}", offset - begin, bytes);
  return fmt::format("{} bytes past a buffer of {}", offset - begin - bytes, bytes);
}

struct Toucher {
  uint16_t thread, warp;
  uint8_t warp_phase;
};

// Returns whether the access of `other` in `phase` is ordered before the present one of `me`.
bool ordered(uint32_t phase, uint16_t other, uint8_t other_warp_phase, const Toucher& me) {
  if (phase < phases.launch_first) return true;               // an earlier launch, or the host
  if (phase < phases.block_first) return false;               // another block of this launch
  if (phase < phases.now || other == me.thread) return true;  // before a barrier, or itself
  if (other == kSeveralWarps) return false;
  const uint16_t warp = (other & kSeveralInWarp) ? other & 0x7fff : other / 32;
  return warp == me.warp && other_warp_phase != me.warp_phase;  // before a __syncwarp
}

void note_read(Shadow& s, const Toucher& me) {
  uint16_t reader = me.thread;
  if (s.read_phase == phases.now && s.reader != me.thread) {
    const uint16_t warp = (s.reader & kSeveralInWarp) ? s.reader & 0x7fff : s.reader / 32;
    const bool same_warp = s.reader != kSeveralWarps && warp == me.warp;
    reader = same_warp && s.read_warp_phase != me.warp_phase ? me.thread
             : same_warp                                     ? static_cast<uint16_t>(kSeveralInWarp | me.warp)
                                                             : kSeveralWarps;
  }
  s.read_phase = phases.now;
  s.reader = reader;
  s.read_warp_phase = me.warp_phase;
}

// Returns the first problem of an access, or null.
const char* find_problem(Shadow& s, Access access, const Toucher& me) {
  if (s.state != State::unwritten && s.state != State::written) return "access out of bounds";
  const bool writes = access != Access::read;
  if (access != Access::write && s.state == State::unwritten) return "read of memory that nothing wrote";
  const bool both_atomic = access == Access::atomic && s.atomic;
  const bool race = (!both_atomic && !ordered(s.write_phase, s.writer, s.write_warp_phase, me)) ||
                    (writes && !ordered(s.read_phase, s.reader, s.read_warp_phase, me));
  if (writes) {
    s = {phases.now,    s.read_phase,      me.thread,      s.reader,
         me.warp_phase, s.read_warp_phase, State::written, access == Access::atomic};
  } else {
    note_read(s, me);
  }
  return race ? "race" : nullptr;
}

}  // namespace

std::shared_ptr<std::byte> allocate(size_t bytes) {
  Region& r = region();
  const size_t offset = r.top;
  r.top += (bytes + kGap + 255) / 256 * 256;
  FP_CHECK(r.top <= kRegion, "more than {} bytes of device memory under test", kRegion);
  r.live[offset] = bytes;
  set_state(offset, bytes, State::unwritten);
  std::memset(r.base + offset, 0xff, bytes);
  return {r.base + offset, [offset, bytes](std::byte*) {
            Region& own = region();
            set_state(offset, bytes, State::closed);
            own.live.erase(offset);
            own.top = own.live.empty()
                          ? kGap
                          : std::max(kGap, std::prev(own.live.end())->first +
                                               (std::prev(own.live.end())->second + kGap + 255) / 256 * 256);
          }};
}

void forbid(void* address, size_t bytes) {
  Shadow* s = region().shadow + region().offset(address) / kGranule;
  for (size_t i = 0; i < bytes / kGranule; ++i)
    s[i].state = s[i].state == State::written ? State::forbidden_written : State::forbidden_unwritten;
}

void allow(void* address, size_t bytes) {
  Shadow* s = region().shadow + region().offset(address) / kGranule;
  for (size_t i = 0; i < bytes / kGranule; ++i)
    s[i].state = s[i].state == State::forbidden_written ? State::written : State::unwritten;
}

void make_unwritten(void* address, size_t bytes) { set_state(region().offset(address), bytes, State::unwritten); }

void host_wrote(const void* address, size_t bytes) {
  if (!region().holds(address)) return;
  const size_t offset = region().offset(address);
  for (size_t i = offset / kGranule; i < (offset + bytes + kGranule - 1) / kGranule; ++i) {
    Shadow& s = region().shadow[i];
    if (s.state != State::unwritten && s.state != State::written)
      complain("access out of bounds", "by a copy or product, " + describe(i * kGranule));
    s = Shadow{0, 0, 0, 0, 0, 0, State::written, false};
  }
}

void host_reads(const void* address, size_t bytes, const char* what) {
  if (!region().holds(address)) return;
  const size_t offset = region().offset(address);
  for (size_t i = offset / kGranule; i < (offset + bytes + kGranule - 1) / kGranule; ++i)
    if (region().shadow[i].state != State::written)
      return complain("read of memory that nothing wrote", std::string(what) + ", " + describe(i * kGranule));
}

void touch(const void* address, size_t bytes, Access access) {
  const Place* place = current;
  if (place == nullptr || is_stack(address)) return;
  Region& r = region();
  if (!r.holds(address)) return;  // constants, and kernel arguments passed by value
  const size_t offset = r.offset(address);
  const Toucher me{static_cast<uint16_t>(place->linear), static_cast<uint16_t>(place->warp()),
                   static_cast<uint8_t>(phases.warp[place->warp()])};
  for (size_t i = offset / kGranule; i < (offset + bytes + kGranule - 1) / kGranule; ++i)
    if (const char* problem = find_problem(r.shadow[i], access, me))
      return complain(problem, (access == Access::read ? "read of " : "write of ") + describe(offset));
}

void touch_atomically(const void* address, size_t bytes) { touch(address, bytes, Access::atomic); }

std::byte* shared_memory() { return region().base + kRegion; }
void fresh_shared() {
  set_state(kRegion, opened_shared, State::closed);
  opened_shared = 0;
}
void open_shared(size_t offset, size_t bytes) {
  set_state(kRegion + offset, bytes, State::unwritten);
  std::memset(shared_memory() + offset, 0xff, bytes);
  opened_shared = std::max(opened_shared, offset + bytes);
}
bool is_stack(const void* address) { return address >= stacks_begin && address < stacks_end; }
void set_stacks(const void* begin, const void* end) {
  stacks_begin = static_cast<const std::byte*>(begin);
  stacks_end = static_cast<const std::byte*>(end);
}

}  // namespace fp::cuda::host
