// The result of each collective, for f32, bf16 and i32, in place and not.
#include <catch2/catch.hpp>

#include "comm/values.h"

namespace fp::test {
namespace {

using fp::Reduction;

template <class T>
void all_reduce_is(fp::World& world, Findings& f, Reduction r) {
  const auto group = everyone(world);
  for (const int64_t n : sizes()) {
    Buffer<T> x(n, world.rank());
    group->all_reduce(x.tensor(), r);
    const std::vector<int> ranks = all_ranks(world);
    x.expect(f, world, "all_reduce", 0, n, [&](int64_t i) { return reduced<T>(ranks, i, r); });
  }
}

TEST_CASE("all_reduce sums in rank order and rounds once") {
  on_ranks([](fp::World& world, Findings& f) {
    all_reduce_is<float>(world, f, Reduction::sum);
    all_reduce_is<fp::bf16>(world, f, Reduction::sum);
  });
}

TEST_CASE("all_reduce takes the maximum") {
  on_ranks([](fp::World& world, Findings& f) {
    all_reduce_is<float>(world, f, Reduction::max);
    all_reduce_is<fp::bf16>(world, f, Reduction::max);
  });
}

TEST_CASE("all_reduce: a NaN of any rank reaches all ranks, in sums and maxima") {
  on_ranks([](fp::World& world, Findings& f) {
    const auto group = everyone(world);
    for (int bad = 0; bad < world.size(); ++bad)
      for (const Reduction r : {Reduction::sum, Reduction::max}) {
        Buffer<float> x(40, world.rank());
        if (world.rank() == bad) x[17] = std::numeric_limits<float>::quiet_NaN();
        group->all_reduce(x.tensor(), r);
        f.expect(x[17] != x[17], "rank {} sees no NaN of rank {}", world.rank(), bad);
        f.expect(x[16] == x[16], "rank {} sees a NaN beside that of rank {}", world.rank(), bad);
      }
  });
}

TEST_CASE("a bf16 sum is rounded once, not after each rank") {
  on_ranks([](fp::World& world, Findings& f) {
    // 256 + 1 + 1 + ...: each 1 alone is half a bf16 spacing and would be lost.
    Buffer<fp::bf16> x(5);
    for (int64_t i = 0; i < 5; ++i) x[i] = fp::bf16(world.rank() == 0 ? 256.0f : 1.0f);
    everyone(world)->all_reduce(x.tensor());
    const auto want = fp::bf16(256.0f + static_cast<float>(world.size() - 1));
    x.expect(f, world, "sum of ones", 0, 5, [&](int64_t) { return want; });
    if (world.size() == 4) f.expect(static_cast<float>(want) > 256.0f, "the case shows nothing");
  });
}

template <class T>
void all_gather_is(fp::World& world, Findings& f, bool in_place) {
  const auto group = everyone(world);
  for (const int64_t n : sizes()) {
    if (world.size() == 1 && !in_place) continue;
    Buffer<T> whole(n * world.size()), part(n, world.rank());
    const fp::Tensor own = whole.slice(world.rank() * n, n);
    for (int64_t i = 0; in_place && i < n; ++i) whole[world.rank() * n + i] = part[i];
    group->all_gather(whole.tensor(), in_place ? own : part.tensor());
    for (int r = 0; r < world.size(); ++r)
      whole.expect(f, world, "all_gather", r * n, n, [&](int64_t i) { return value<T>(r, i); });
    part.expect(f, world, "all_gather's source", 0, n, [&](int64_t i) { return value<T>(world.rank(), i); });
  }
}

TEST_CASE("all_gather concatenates the parts in rank order") {
  on_ranks([](fp::World& world, Findings& f) {
    for (const bool in_place : {false, true}) {
      all_gather_is<float>(world, f, in_place);
      all_gather_is<fp::bf16>(world, f, in_place);
      all_gather_is<int32_t>(world, f, in_place);
    }
  });
}

template <class T>
void reduce_scatter_is(fp::World& world, Findings& f, bool in_place) {
  const auto group = everyone(world);
  const std::vector<int> ranks = all_ranks(world);
  for (const int64_t n : sizes()) {
    if (world.size() == 1 && !in_place) continue;
    Buffer<T> whole(n * world.size(), world.rank()), part(n);
    const int64_t first = world.rank() * n;
    group->reduce_scatter(in_place ? whole.slice(first, n) : part.tensor(), whole.tensor());
    (in_place ? whole : part).expect(f, world, "reduce_scatter", in_place ? first : 0, n, [&](int64_t i) {
      return reduced<T>(ranks, first + i, Reduction::sum);
    });
  }
}

TEST_CASE("reduce_scatter gives each rank its piece of the sum") {
  on_ranks([](fp::World& world, Findings& f) {
    for (const bool in_place : {false, true}) {
      reduce_scatter_is<float>(world, f, in_place);
      reduce_scatter_is<fp::bf16>(world, f, in_place);
    }
  });
}

template <class T>
void broadcast_is(fp::World& world, Findings& f) {
  const auto group = everyone(world);
  for (const int64_t n : sizes())
    for (int root = 0; root < world.size(); root += 2) {
      Buffer<T> x(n, world.rank());
      group->broadcast(x.tensor(), root);
      x.expect(f, world, "broadcast", 0, n, [&](int64_t i) { return value<T>(root, i); });
    }
}

TEST_CASE("broadcast copies the root's tensor to all ranks") {
  on_ranks([](fp::World& world, Findings& f) {
    broadcast_is<float>(world, f);
    broadcast_is<fp::bf16>(world, f);
    broadcast_is<int32_t>(world, f);
  });
}

// Number of elements that rank `from` sends to rank `to` in a pattern: equal, uneven with zeros, or all to one.
int64_t count_of(int pattern, int from, int to, int ranks) {
  if (pattern == 0) return 33;
  if (pattern == 1) return (from * 7 + to * 3) % 5 * 1000 + (from + to) % 3;
  return to == ranks - 1 ? 5 : 0;
}

template <class T>
void all_to_all_is(fp::World& world, Findings& f, int pattern) {
  const int me = world.rank(), n = world.size();
  if (n == 1) return;
  std::vector<int64_t> sends, recvs;
  int64_t out = 0, in = 0;
  for (int r = 0; r < n; ++r) {
    sends.push_back(count_of(pattern, me, r, n));
    recvs.push_back(count_of(pattern, r, me, n));
    out += sends.back();
    in += recvs.back();
  }
  Buffer<T> from(out, me), to(in);
  const auto group = everyone(world);
  if (pattern == 0)
    group->all_to_all(to.tensor(), from.tensor());
  else
    group->start_all_to_all(to.tensor(), from.tensor(), sends, recvs).wait();
  int64_t at = 0;
  for (int r = 0; r < n; ++r) {
    int64_t there = 0;  // offset, in rank r's tensor, of the piece for this rank
    for (int k = 0; k < me; ++k) there += count_of(pattern, r, k, n);
    to.expect(f, world, "all_to_all", at, recvs[static_cast<size_t>(r)],
              [&](int64_t i) { return value<T>(r, there + i); });
    at += recvs[static_cast<size_t>(r)];
  }
}

TEST_CASE("all_to_all exchanges equal, uneven and empty pieces") {
  on_ranks([](fp::World& world, Findings& f) {
    for (const int pattern : {0, 1, 2}) {
      all_to_all_is<float>(world, f, pattern);
      all_to_all_is<fp::bf16>(world, f, pattern);
      all_to_all_is<int32_t>(world, f, pattern);
    }
  });
}

TEST_CASE("a repeated sum has the same bits") {
  on_ranks([](fp::World& world, Findings& f) {
    const auto group = everyone(world);
    const int64_t n = 100003;
    Buffer<float> first(n, world.rank()), second(n, world.rank());
    group->all_reduce(first.tensor());
    group->all_reduce(second.tensor());
    second.expect(f, world, "again", 0, n, [&](int64_t i) { return first[i]; });
  });
}

}  // namespace
}  // namespace fp::test
