// The counting world: it moves nothing and counts the same traffic as real worlds.
#include <catch2/catch.hpp>

#include "comm/backends.h"
#include "comm/counting.h"
#include "comm/values.h"

namespace fp::test {
namespace {

void talk(fp::World& world) {
  const int64_t n = world.size();
  const auto group = everyone(world, "tensor");
  const auto pair = world.pair("pair", {world.rank() / 2 * 2, world.rank() / 2 * 2 + 1});
  Buffer<float> x(1003, world.rank()), y(1003), part(10, world.rank()), whole(10 * n, world.rank()), to(10 * n);
  fp::Request sum = group->start_all_reduce(x.tensor());
  group->all_gather(whole.tensor(), part.tensor());
  sum.wait();
  group->reduce_scatter(part.tensor(), whole.tensor());
  group->all_to_all(to.tensor(), whole.tensor());
  group->broadcast(x.tensor(), 1);
  fp::Request send = pair->start_send(x.tensor(), 1 - pair->rank());
  fp::Request recv = pair->start_recv(y.tensor(), 1 - pair->rank());
  send.wait();
  recv.wait();
  pair->all_gather(std::string("seven77"));
}

TEST_CASE("a counting world counts the same traffic as a real world, on every rank") {
  std::vector<fp::TrafficTable> real(4);
  fp::run_thread_ranks(4, [&](fp::World& world) {
    world.set_nodes(fp::NodeMap(4, 2));
    talk(world);
    real[static_cast<size_t>(world.rank())] = world.record().traffic();
  });
  for (int rank = 0; rank < 4; ++rank) {
    const auto world = fp::make_counting_world(rank, 4);
    world->set_nodes(fp::NodeMap(4, 2));
    talk(*world);
    INFO("rank " << rank);
    CHECK(!world->record().traffic().empty());
    CHECK(world->record().traffic() == real[static_cast<size_t>(rank)]);
  }
}

TEST_CASE("bytes between nodes are those that ring and pairs send to another node") {
  const fp::NodeMap nodes(4, 2);
  CHECK(nodes.nodes() == 2);
  CHECK(fp::NodeMap({"a", "b", "a", "c"}).node_of(2) == 0);
  CHECK(fp::NodeMap({"a", "b", "a", "c"}).nodes() == 3);
  std::map<fp::CommKind, int64_t> sum;
  for (int rank = 0; rank < 4; ++rank) {
    const auto counting = fp::make_counting_world(rank, 4);
    counting->set_nodes(nodes);
    talk(*counting);
    for (const auto& [key, t] : counting->record().traffic()) sum[key.second] += t.between_nodes;
  }
  // Ranks 1 and 3 send to the other node; in bytes: n = 4 ranks, parts of 10 and tensors of 1003 floats.
  CHECK(sum[fp::CommKind::all_gather] == 2 * 3 * 10 * 4);
  CHECK(sum[fp::CommKind::reduce_scatter] == 2 * 3 * 10 * 4);
  CHECK(sum[fp::CommKind::all_reduce] == 4 * (1003 + 2 * 251 + 1003 + 2 * 250));
  CHECK(sum[fp::CommKind::all_to_all] == 4 * 2 * 10 * 4);
  CHECK(sum[fp::CommKind::broadcast] == 2 * 1003 * 4);  // from 1 to 2, and from 3 to 0
  CHECK(sum[fp::CommKind::send] == 0);                  // the ranks of a pair are on one node
  CHECK(sum[fp::CommKind::host] == 0);
}

TEST_CASE("an observer of a counting world gets the pieces of an all-to-all if they differ") {
  struct Pieces final : fp::CommObserver {
    double started(fp::CommKind, const std::string&, std::span<const int>, int64_t,
                   const fp::UnevenPieces& p) override {
      seen.push_back(p);
      return 0;
    }
    void waited(double) override {}
    std::vector<fp::UnevenPieces> seen;
  } observer;
  const auto world = fp::make_counting_world(1, 3);
  world->observe(&observer);
  const auto group = everyone(*world);
  Buffer<float> from(6, 0), to(6);
  group->all_to_all(to.tensor(), from.tensor());
  group->start_all_to_all(to.tensor(), from.tensor(), {0, 2, 4}, {1, 2, 3}).wait();
  group->all_reduce(from.tensor());
  REQUIRE(observer.seen.size() == 3);
  CHECK(observer.seen[0].sends.empty());
  CHECK(observer.seen[1].sends == std::vector<int64_t>{0, 8, 16});
  CHECK(observer.seen[1].recvs == std::vector<int64_t>{4, 8, 12});
  CHECK(observer.seen[2].sends.empty());
}

TEST_CASE("a counting world returns host values as if all ranks had given the same") {
  const auto world = fp::make_counting_world(1000, 4096);
  CHECK(world->backend() == "counting");
  const auto group = everyone(*world);
  CHECK(group->rank() == 1000);
  double value = 2;
  group->all_reduce(std::span(&value, 1));
  CHECK(value == 8192);
  group->all_reduce(std::span(&value, 1), fp::Reduction::max);
  CHECK(value == 8192);
  CHECK(group->all_gather(std::string("x")) == std::vector<std::string>(4096, "x"));
  // Tensors of a dry run have no valid addresses.
  const fp::Tensor nowhere(reinterpret_cast<void*>(4096), fp::DType::bf16, {int64_t{1} << 40});
  group->all_reduce(nowhere);
  CHECK(world->record().traffic().at({"all", fp::CommKind::all_reduce}).calls == 1);
}

}  // namespace
}  // namespace fp::test
