// The suite of worlds with slow links, and how slow they are.
#include <catch2/catch.hpp>
#include <chrono>
#include <random>

#include "comm/backends.h"
#include "comm/values.h"

namespace fp::test {
namespace {

// Up to 0.2 ms, different for every communication and rank.
fp::CommSeconds random_seconds(int rank) {
  return [random = std::mt19937(static_cast<unsigned>(rank))](fp::CommKind, std::span<const int>, int64_t,
                                                              const fp::UnevenPieces&) mutable {
    return 1e-6 * static_cast<double>(random() % 200);
  };
}

}  // namespace

void run_worlds(const Body& body, Findings& findings) {
  for (const int size : {1, 2, 3, 4})
    fp::run_thread_ranks(size, [&](fp::World& threads) {
      const auto world = fp::make_delayed_world(threads, random_seconds(threads.rank()));
      body(*world, findings);
    });
}

void* device_address(void* host) { return host; }

namespace {

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST_CASE("a delayed communication takes its time after the last rank has started it, and after those before it") {
  constexpr double kSeconds = 5e-3;
  on_ranks([](fp::World& world, Findings& f) {
    if (world.size() == 1) return;
    const auto slow = fp::make_delayed_world(
        world, [](fp::CommKind, std::span<const int> ranks, int64_t sent, const fp::UnevenPieces&) {
          return kSeconds * static_cast<double>(ranks.size()) * static_cast<double>(sent) / 1000;
        });
    const auto group = everyone(*slow, "slow");
    const int n = world.size();
    Buffer<float> part(250, 0), whole(250 * n);
    const double alone = seconds_of([&] { group->all_gather(whole.tensor(), part.tensor()); });
    const double two = seconds_of([&] {
      fp::Request first = group->start_all_gather(whole.tensor(), part.tensor());
      fp::Request second = group->start_all_gather(whole.tensor(), part.tensor());
      second.wait();
      first.wait();
    });
    const double once = kSeconds * n * (n - 1);
    f.expect(alone >= once, "a gather took {} s instead of {}", alone, once);
    f.expect(two >= 2 * once, "two gathers took {} s instead of {}", two, 2 * once);
    if (world.rank() > 1) return;
    const auto pair = slow->pair("slow", {0, 1});
    const double message = seconds_of([&] {
      pair->barrier();
      (world.rank() == 0 ? pair->start_send(part.tensor(), 1) : pair->start_recv(part.tensor(), 0)).wait();
    });
    f.expect(message >= 2 * kSeconds, "rank {}: a message took {} s instead of {}", world.rank(), message,
             2 * kSeconds);
  });
}

}  // namespace
}  // namespace fp::test
