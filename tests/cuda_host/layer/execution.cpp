#include "cuda_host/execution.h"

#include <sys/mman.h>

#include <algorithm>
#include <boost/context/fiber.hpp>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <numeric>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/philox.h"
#include "cuda_host/memory.h"

namespace fp::cuda::host {

namespace context = boost::context;

const Place* current = nullptr;

namespace {

constexpr size_t kMaxThreads = 1024, kStack = 256 * 1024;

std::vector<std::string>& registered() {
  static std::vector<std::string> names;
  return names;
}
std::set<std::string>& launched() {
  static std::set<std::string> names;
  return names;
}

struct Random {
  uint64_t state = std::getenv("FP_CUDA_HOST_SEED") ? std::strtoull(std::getenv("FP_CUDA_HOST_SEED"), nullptr, 10) : 1;
  size_t below(size_t n) { return static_cast<size_t>(Philox::mix(state++) % n); }
} random_order;

struct Problems {
  std::string text;
  std::set<std::string> kinds;  // kinds of problems of this launch
} problems;

// The stacks of all threads, in one allocation so that is_stack() is a range check.
struct Stacks {
  std::byte* base;
  Stacks()
      : base(static_cast<std::byte*>(mmap(nullptr, kMaxThreads * kStack, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    FP_CHECK(base != MAP_FAILED, "no memory for the stacks of {} threads", kMaxThreads);
    set_stacks(base, base + kMaxThreads * kStack);
  }
  context::preallocated of(size_t i) {
    context::stack_context whole;
    whole.size = kStack;
    whole.sp = base + (i + 1) * kStack;
    return {whole.sp, whole.size, whole};
  }
};

struct NoAllocator {
  context::stack_context allocate() { return {}; }
  void deallocate(context::stack_context&) {}
};

struct Copy {
  void* to;
  const void* from;
  size_t bytes, valid;
};

struct Thread {
  Place place;
  context::fiber fiber, scheduler;
  const char* waits_at = nullptr;  // place in the source; null: running or ready
  bool done = false;
  std::deque<std::vector<Copy>> groups;  // groups of asynchronous copies; the last one is open
};

struct WarpOperation {
  uint32_t mask = 0, arrived = 0;
  const char* site = nullptr;
  Lanes lanes;
};

struct StaticArray {
  const void* key;
  size_t offset;
};

// The running block; there is one at a time.
struct Block {
  std::string kernel;
  const std::function<void()>* body = nullptr;
  std::vector<Thread> threads{kMaxThreads};
  size_t size = 0, finished = 0, at_barrier = 0;
  std::vector<unsigned> ready;
  std::vector<WarpOperation> operations[32];
  std::vector<StaticArray> arrays;
  size_t static_top = 0, dynamic_offset = 0, dynamic_bytes = 0;
  Stacks stacks;
};
Block& block() {
  static Block b;
  return b;
}
Thread& self() { return block().threads[current->linear]; }

void pause(const char* site) {
  Thread& t = self();
  t.waits_at = site;
  t.scheduler = std::move(t.scheduler).resume();
}

void wake(unsigned thread) {
  block().threads[thread].waits_at = nullptr;
  block().ready.push_back(thread);
}

// A fiber runs one thread of every block until it is abandoned.
void make_fiber(unsigned i) {
  Thread& t = block().threads[i];
  t.fiber = context::fiber(std::allocator_arg, block().stacks.of(i), NoAllocator{}, [&t](context::fiber&& scheduler) {
    t.scheduler = std::move(scheduler);
    for (;;) {
      (*block().body)();
      t.done = true;
      t.scheduler = std::move(t.scheduler).resume();
    }
    return std::move(t.scheduler);
  });
}

void complain_stuck() {
  std::set<std::string> sites;
  size_t waiting = 0, first = 0;
  for (size_t i = block().size; i-- > 0;) {
    const Thread& t = block().threads[i];
    if (t.waits_at == nullptr) continue;
    ++waiting;
    first = i;
    sites.insert(t.waits_at);
  }
  current = &block().threads[first].place;
  complain("divergence", fmt::format("{} of {} threads wait for ever at {}; {} have returned", waiting, block().size,
                                     fmt::join(sites, " and "), block().finished));
  current = nullptr;
  for (size_t i = 0; i < block().size; ++i)
    if (!block().threads[i].done) block().threads[i].fiber = {};  // unwinds it
}

void prepare(Dim3 index, Dim3 grid, Dim3 size) {
  Block& b = block();
  b.size = size.count();
  b.finished = b.at_barrier = 0;
  b.ready.resize(b.size);
  std::iota(b.ready.begin(), b.ready.end(), 0u);
  for (auto& o : b.operations) o.clear();
  b.arrays.clear();
  b.static_top = 0;
  fresh_shared();
  if (b.dynamic_bytes > 0) open_shared(b.dynamic_offset, b.dynamic_bytes);
  phases.block_first = ++phases.now;
  std::fill(std::begin(phases.warp), std::end(phases.warp), 0u);
  for (unsigned i = 0; i < b.size; ++i) {
    Thread& t = b.threads[i];
    t.place = {{i % size.x, i / size.x % size.y, i / size.x / size.y}, index, size, grid, i};
    t.done = false;
    t.waits_at = nullptr;
    t.groups.assign(1, {});
    if (!t.fiber) make_fiber(i);
  }
}

void run_block(Dim3 index, Dim3 grid, Dim3 size) {
  prepare(index, grid, size);
  Block& b = block();
  while (!b.ready.empty()) {
    std::swap(b.ready[random_order.below(b.ready.size())], b.ready.back());
    Thread& t = b.threads[b.ready.back()];
    b.ready.pop_back();
    current = &t.place;
    t.fiber = std::move(t.fiber).resume();
    if (t.done) {
      ++b.finished;
      if (std::any_of(t.groups.begin(), t.groups.end(), [](const auto& g) { return !g.empty(); }))
        complain("asynchronous copy", "never waited for");
    }
    current = nullptr;
  }
  if (b.finished < b.size) complain_stuck();
}

}  // namespace

KernelName::KernelName(std::string signature) : name(std::move(signature)) { registered().push_back(name); }
const std::vector<std::string>& registered_kernels() { return registered(); }
std::vector<std::string> launched_kernels() { return {launched().begin(), launched().end()}; }
void set_seed(uint64_t seed) { random_order.state = seed; }

void launch(const KernelName& kernel, Dim3 grid, Dim3 size, size_t dynamic_shared_bytes,
            const std::function<void()>& body) {
  FP_CHECK(current == nullptr, "a kernel launches a kernel");
  FP_CHECK(size.count() >= 1 && size.count() <= kMaxThreads && size.z <= 64, "{}: a block of {} threads", kernel.name,
           size.count());
  FP_CHECK(grid.count() >= 1 && grid.y <= 65535 && grid.z <= 65535, "{}: a grid of {} x {} x {}", kernel.name, grid.x,
           grid.y, grid.z);
  Block& b = block();
  b.kernel = kernel.name;
  b.body = &body;
  b.dynamic_bytes = dynamic_shared_bytes;
  b.dynamic_offset = (kSharedBytes - dynamic_shared_bytes) / 128 * 128;
  FP_CHECK(dynamic_shared_bytes <= kSharedBytes, "{}: {} bytes of shared memory", kernel.name, dynamic_shared_bytes);
  launched().insert(kernel.name);
  problems.kinds.clear();
  phases.launch_first = ++phases.now;
  std::vector<size_t> order(grid.count());
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_order.below(i)]);
  for (const size_t i : order)
    run_block({static_cast<unsigned>(i % grid.x), static_cast<unsigned>(i / grid.x % grid.y),
               static_cast<unsigned>(i / grid.x / grid.y)},
              grid, size);
}

void barrier(const char* site) {
  Block& b = block();
  if (++b.at_barrier < b.size) return pause(site);
  for (unsigned i = 0; i < b.size; ++i) {
    Thread& t = b.threads[i];
    if (i == current->linear) continue;
    if (t.waits_at != site) complain("divergence", fmt::format("a barrier at {} and one at {}", site, t.waits_at));
    wake(i);
  }
  b.at_barrier = 0;
  ++phases.now;
}

void warp_operation(uint32_t mask, const char* site, void* argument, Combine combine) {
  Block& b = block();
  const unsigned lane = current->lane(), warp = current->warp();
  if ((mask >> lane & 1) == 0)
    return complain("divergence", fmt::format("lane {} is not in its own mask {:#x} at {}", lane, mask, site));
  auto& pending = b.operations[warp];
  auto op = std::find_if(pending.begin(), pending.end(), [&](const WarpOperation& o) {
    return o.mask == mask && o.site == site && (o.arrived >> lane & 1) == 0;
  });
  if (op == pending.end()) {
    pending.push_back({mask, 0, site, {}});
    op = pending.end() - 1;
  }
  op->arrived |= 1u << lane;
  op->lanes.argument[lane] = argument;
  if (op->arrived != mask) return pause(site);
  op->lanes.mask = mask;
  Lanes lanes = op->lanes;
  pending.erase(op);
  combine(lanes);
  for (unsigned i = 0; i < 32; ++i)
    if ((mask >> i & 1) != 0 && i != lane) wake(warp * 32 + i);
}

void warp_barrier(uint32_t mask, const char* site) {
  unsigned warp = current->warp();
  warp_operation(mask, site, &warp, [](Lanes& lanes) {
    for (unsigned i = 0; i < 32; ++i)
      if (lanes.mask >> i & 1) {
        ++phases.warp[*static_cast<unsigned*>(lanes.argument[i])];
        return;
      }
  });
}

void* static_shared(const void* key, size_t bytes, size_t alignment) {
  Block& b = block();
  for (const StaticArray& a : b.arrays)
    if (a.key == key) return shared_memory() + a.offset;
  const size_t offset = (b.static_top + std::max<size_t>(alignment, 16) - 1) / std::max<size_t>(alignment, 16) *
                        std::max<size_t>(alignment, 16);
  b.static_top = offset + bytes;
  FP_CHECK(b.static_top <= b.dynamic_offset && b.static_top <= 48 * 1024,
           "{}: {} bytes of static and {} of dynamic shared memory", b.kernel, b.static_top, b.dynamic_bytes);
  open_shared(offset, bytes);
  b.arrays.push_back({key, offset});
  return shared_memory() + offset;
}

void* dynamic_shared() { return shared_memory() + block().dynamic_offset; }

void complain(const std::string& kind, const std::string& detail) {
  if (!problems.kinds.insert(kind).second) return;
  std::string place;
  if (current != nullptr)
    place = fmt::format("{}, block ({},{},{}), thread {}: ", block().kernel, current->block.x, current->block.y,
                        current->block.z, current->linear);
  problems.text += fmt::format("{}{}: {}\n", place, kind, detail);
}

std::string take_problems() {
  problems.kinds.clear();
  return std::exchange(problems.text, {});
}

void defer_copy(void* to, const void* from, size_t bytes, size_t valid_bytes) {
  self().groups.back().push_back({to, from, bytes, valid_bytes});
}
void commit_copies() { self().groups.emplace_back(); }
void wait_copies(int groups_left) {
  auto& groups = self().groups;
  while (groups.size() > static_cast<size_t>(groups_left) + 1) {
    for (const Copy& c : groups.front()) {
      if (c.valid > 0) touch(c.from, c.valid, Access::read);
      touch(c.to, c.bytes, Access::write);
      std::memcpy(c.to, c.from, c.valid);
      std::memset(static_cast<std::byte*>(c.to) + c.valid, 0, c.bytes - c.valid);
    }
    groups.pop_front();
  }
}

}  // namespace fp::cuda::host
