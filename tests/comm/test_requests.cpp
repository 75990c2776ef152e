// Several communications in flight at once, sub-groups, and host values.
#include <catch2/catch.hpp>

#include "comm/values.h"

namespace fp::test {
namespace {

TEST_CASE("several requests of a group are in flight at once and waited for in order") {
  on_ranks([](fp::World& world, Findings& f) {
    const auto group = everyone(world);
    const std::vector<int> ranks = all_ranks(world);
    constexpr int kRequests = 6;
    std::vector<Buffer<float>> x;
    for (int k = 0; k < kRequests; ++k) x.emplace_back(1 + k * 5001, world.rank(), k);
    std::vector<fp::Request> requests;
    for (auto& b : x) requests.push_back(group->start_all_reduce(b.tensor()));
    for (auto& r : requests) r.wait();
    for (int k = 0; k < kRequests; ++k)
      x[static_cast<size_t>(k)].expect(f, world, "request", 0, 1 + k * 5001,
                                       [&](int64_t i) { return reduced<float>(ranks, k + i, fp::Reduction::sum); });
  });
}

TEST_CASE("requests of two groups may be waited for in different orders on different ranks") {
  on_ranks([](fp::World& world, Findings& f) {
    const auto one = everyone(world, "one"), two = everyone(world, "two");
    const std::vector<int> ranks = all_ranks(world);
    const int64_t n = 30011;
    Buffer<float> a(n, world.rank()), b(n, world.rank());
    fp::Request first = one->start_all_reduce(a.tensor()), second = two->start_all_reduce(b.tensor());
    if (world.rank() % 2 == 0) {
      first.wait();
      second.wait();
    } else {
      second.wait();
      first.wait();
    }
    for (Buffer<float>* x : {&a, &b})
      x->expect(f, world, "crossed", 0, n, [&](int64_t i) { return reduced<float>(ranks, i, fp::Reduction::sum); });
  });
}

// The row and the column of this rank in a grid of `rows` rows.
struct Grid {
  std::vector<int> row, column;
  Grid(const fp::World& world, int rows) {
    const int columns = world.size() / rows;
    for (int r = 0; r < world.size(); ++r) {
      if (r / columns == world.rank() / columns) row.push_back(r);
      if (r % columns == world.rank() % columns) column.push_back(r);
    }
  }
};

TEST_CASE("groups of the rows and columns of a grid, used alternately") {
  on_ranks([](fp::World& world, Findings& f) {
    if (world.size() % 2 != 0) return;
    const Grid grid(world, 2);
    const auto row = world.group("row", grid.row), column = world.group("column", grid.column);
    for (int turn = 0; turn < 3; ++turn)
      for (const bool across : {true, false}) {
        const auto& group = across ? row : column;
        const std::vector<int>& ranks = across ? grid.row : grid.column;
        const int64_t n = 5003, each = 77;
        Buffer<float> x(n, world.rank(), turn), part(each, world.rank()), whole(each * group->size());
        f.expect(ranks[static_cast<size_t>(group->rank())] == world.rank(), "rank {} has another place", world.rank());
        fp::Request sum = group->start_all_reduce(x.tensor());
        if (group->size() > 1) group->all_gather(whole.tensor(), part.tensor());
        sum.wait();
        x.expect(f, world, "grid", 0, n,
                 [&](int64_t i) { return reduced<float>(ranks, turn + i, fp::Reduction::sum); });
        for (int64_t r = 0; r < group->size() && group->size() > 1; ++r)
          whole.expect(f, world, "grid", r * each, each,
                       [&](int64_t i) { return value<float>(ranks[static_cast<size_t>(r)], i); });
      }
  });
}

TEST_CASE("messages of two groups with the same name and ranks do not mix") {
  on_ranks([](fp::World& world, Findings& f) {
    if (world.backend() == "nccl") return;  // it requires the same order on groups that share ranks
    const auto one = everyone(world, "same"), two = everyone(world, "same");
    Buffer<float> a(9, world.rank()), b(9, world.rank(), 100);
    fp::Request first, second;
    // Ranks start them in different orders, so only the group distinguishes them.
    if (world.rank() % 2 == 0) {
      first = one->start_all_reduce(a.tensor());
      second = two->start_all_reduce(b.tensor());
    } else {
      second = two->start_all_reduce(b.tensor());
      first = one->start_all_reduce(a.tensor());
    }
    first.wait();
    second.wait();
    const std::vector<int> ranks = all_ranks(world);
    a.expect(f, world, "first", 0, 9, [&](int64_t i) { return reduced<float>(ranks, i, fp::Reduction::sum); });
    b.expect(f, world, "second", 0, 9, [&](int64_t i) { return reduced<float>(ranks, 100 + i, fp::Reduction::sum); });
  });
}

TEST_CASE("host values: sums, maxima, texts of any length, barriers") {
  on_ranks([](fp::World& world, Findings& f) {
    const auto group = everyone(world);
    const int n = world.size(), me = world.rank();
    std::vector<double> sums{1.0, 0.5 * me}, most{static_cast<double>(me), -1.0 * me};
    group->all_reduce(std::span(sums));
    group->all_reduce(std::span(most), fp::Reduction::max);
    f.expect(sums == std::vector<double>{1.0 * n, 0.25 * n * (n - 1)}, "sums {} {}", sums[0], sums[1]);
    f.expect(most == std::vector<double>{n - 1.0, 0.0}, "maxima {} {}", most[0], most[1]);

    const auto text = [](int rank) {
      return std::string(static_cast<size_t>(rank * 1000), static_cast<char>('a' + rank));
    };
    const std::vector<std::string> texts = group->all_gather(text(me));
    for (int r = 0; r < n; ++r) f.expect(texts[static_cast<size_t>(r)] == text(r), "text of rank {}", r);
    f.expect(group->broadcast(text(me), n - 1) == text(n - 1), "broadcast text");
    f.expect(group->all_gather(std::string()) == std::vector<std::string>(static_cast<size_t>(n)), "empty texts");
    group->barrier();
  });
}

TEST_CASE("the bytes counted as sent equal the closed forms") {
  on_ranks([](fp::World& world, Findings& f) {
    const int64_t n = world.size(), me = world.rank();
    if (n == 1) return;
    const auto group = everyone(world, "counted");
    world.record().reset_traffic();
    Buffer<float> x(1000, world.rank());
    Buffer<fp::bf16> whole(10 * n, world.rank()), part(10, world.rank()), to(10 * n);
    group->all_reduce(x.tensor());
    group->all_gather(whole.tensor(), part.tensor());
    group->reduce_scatter(part.tensor(), whole.tensor());
    group->all_to_all(to.tensor(), whole.tensor());
    group->broadcast(x.tensor(), 0);
    double value = 1;
    group->all_reduce(std::span(&value, 1));
    const int64_t mine = 1000 / n + (me < 1000 % n ? 1 : 0);
    using fp::CommKind;
    const std::vector<std::pair<CommKind, int64_t>> expected{{CommKind::all_reduce, 4 * (1000 - mine + mine * (n - 1))},
                                                             {CommKind::all_gather, 20 * (n - 1)},
                                                             {CommKind::reduce_scatter, 20 * (n - 1)},
                                                             {CommKind::all_to_all, 20 * (n - 1)},
                                                             {CommKind::broadcast, me == 0 ? 4000 * (n - 1) : 0},
                                                             {CommKind::host, 8 * 2}};
    const fp::TrafficTable traffic = world.record().traffic();
    f.expect(traffic.size() == expected.size(), "{} kinds counted", traffic.size());
    for (const auto& [kind, bytes] : expected) {
      const auto found = traffic.find({"counted", kind});
      const fp::Traffic t = found == traffic.end() ? fp::Traffic{} : found->second;
      f.expect(t == fp::Traffic{1, bytes}, "{}: {} calls, {} bytes", fp::name_of(kind), t.calls, t.bytes);
    }
  });
}

TEST_CASE("many small communications, one after another") {
  on_ranks([](fp::World& world, Findings& f) {
    const auto group = everyone(world);
    for (int i = 0; i < 300; ++i) {
      double value = world.rank() + i;
      group->all_reduce(std::span(&value, 1), fp::Reduction::max);
      f.expect(value == world.size() - 1 + i, "turn {}: {}", i, value);
    }
  });
}

}  // namespace
}  // namespace fp::test
