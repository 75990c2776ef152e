// Host values: sums in the order of the tree, maxima, texts to all ranks and to one.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "comm/values.h"

namespace fp::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Values whose sums depend on their order.
double wild(int rank, int i) {
  return static_cast<double>(value<float>(rank, i)) * std::pow(10.0, (rank * 7 + i) % 13);
}

// Sums in the order of the tree: pairs of neighbours first, then pairs of these sums, and so on.
double tree_sum(const fp::World& world, int i) {
  std::vector<double> sums;
  for (int r = 0; r < world.size(); ++r) sums.push_back(wild(r, i));
  for (size_t step = 1; step < sums.size(); step *= 2)
    for (size_t r = 0; r + step < sums.size(); r += 2 * step) sums[r] += sums[r + step];
  return sums[0];
}

TEST_CASE("a group for host values carries them") {
  on_ranks([](fp::World& world, Findings& f) {
    const auto group = world.host_group("host", all_ranks(world));
    double sum = world.rank() + 1;
    group->all_reduce(std::span(&sum, 1));
    f.expect(sum == 0.5 * world.size() * (world.size() + 1), "a sum of {} on rank {}", sum, world.rank());
    const std::string last = group->broadcast(std::to_string(world.rank()), world.size() - 1);
    f.expect(last == std::to_string(world.size() - 1), "{} was broadcast to rank {}", last, world.rank());
  });
}

TEST_CASE("host sums follow one binary tree, so all ranks and backends get the same bits") {
  on_ranks([](fp::World& world, Findings& f) {
    const auto group = everyone(world);
    std::vector<double> sums;
    for (int i = 0; i < 50; ++i) sums.push_back(wild(world.rank(), i));
    group->all_reduce(sums);
    for (int i = 0; i < 50; ++i) {
      const double want = tree_sum(world, i), is = sums[static_cast<size_t>(i)];
      f.expect(std::memcmp(&want, &is, sizeof is) == 0, "sum {} on rank {}: {} instead of {}", i, world.rank(), is,
               want);
    }
  });
}

TEST_CASE("a NaN host value of any rank reaches all ranks") {
  on_ranks([](fp::World& world, Findings& f) {
    const auto group = everyone(world);
    for (int bad = 0; bad < world.size(); ++bad)
      for (const auto reduction : {fp::Reduction::sum, fp::Reduction::max}) {
        double values[] = {world.rank() == bad ? kNan : 1.0, 1.0};
        group->all_reduce(values, reduction);
        f.expect(std::isnan(values[0]) && std::isfinite(values[1]), "{} {} from rank {} on rank {}", values[0],
                 values[1], bad, world.rank());
      }
  });
}

TEST_CASE("integer host values are summed modulo 2^64") {
  on_ranks([](fp::World& world, Findings& f) {
    const auto group = everyone(world);
    constexpr uint64_t kHuge = 0xfedcba9876543211u;
    const auto of = [](int rank) { return kHuge * static_cast<uint64_t>(rank + 1); };
    std::vector<uint64_t> values{of(world.rank()), 1};
    group->all_reduce(std::span(values));
    uint64_t sum = 0;
    for (int r = 0; r < world.size(); ++r) sum += of(r);
    f.expect(values[0] == sum && values[1] == static_cast<uint64_t>(world.size()), "{} {}", values[0], values[1]);
  });
}

TEST_CASE("gather returns texts on the root only, in rank order") {
  on_ranks([](fp::World& world, Findings& f) {
    const auto group = everyone(world);
    const int n = world.size(), me = world.rank();
    // Lengths from 0 to more than the largest message of the test of small messages.
    const auto text = [](int rank) {
      return std::string(static_cast<size_t>(rank % 3) * 2500, static_cast<char>('a' + rank));
    };
    for (int root = 0; root < n; ++root) {
      const std::vector<std::string> texts = group->gather(text(me), root);
      f.expect(texts.size() == static_cast<size_t>(me == root ? n : 0), "{} texts on rank {}", texts.size(), me);
      for (size_t r = 0; r < texts.size(); ++r)
        f.expect(texts[r] == text(static_cast<int>(r)), "text of rank {} on root {}", r, root);
      f.expect(group->broadcast(text(me), root) == text(root), "text of root {}", root);
    }
    f.expect(group->gather("") == std::vector<std::string>(static_cast<size_t>(me == 0 ? n : 0)), "empty texts");
  });
}

TEST_CASE("all ranks get the lowest rank whose flag is set") {
  on_ranks([](fp::World& world, Findings& f) {
    const auto group = everyone(world);
    f.expect(group->lowest_with(false) == -1, "none");
    for (int r = 0; r < world.size(); ++r)
      f.expect(group->lowest_with(world.rank() >= r) == r, "rank {} on rank {}", r, world.rank());
  });
}

TEST_CASE("host values of a pair do not mix with its messages") {
  on_ranks([](fp::World& world, Findings& f) {
    if (world.rank() > 1 || world.size() < 2) return;
    const auto pair = world.pair("two", {0, 1});
    Buffer<float> out(100, world.rank()), in(100);
    fp::Request recv = pair->start_recv(in.tensor(), 1 - pair->rank());
    double value = 1 + pair->rank();
    pair->all_reduce(std::span(&value, 1));
    f.expect(value == 3, "{} on rank {}", value, world.rank());
    fp::Request send = pair->start_send(out.tensor(), 1 - pair->rank());
    send.wait();
    recv.wait();
    in.expect(f, world, "message", 0, 100, [&](int64_t i) { return fp::test::value<float>(1 - world.rank(), i); });
  });
}

}  // namespace
}  // namespace fp::test
