// CostModel: times of single ops and communications.
#include <catch2/catch.hpp>
#include <numeric>

#include "base/error.h"
#include "planner/costs.h"
#include "planner/timeline.h"
#include "small_cluster.h"

using namespace fp;

namespace {

std::vector<int> ranks(int first, int count, int step = 1) {
  std::vector<int> r(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) r[static_cast<size_t>(i)] = first + i * step;
  return r;
}

}  // namespace

TEST_CASE("narrow products run at a lower rate", "[planner]") {
  ClusterSpec cluster = small_cluster();
  cluster.profiles[0].products[0] = {"linear", "bf16", 100, 64, 32, 16, 3};
  const CostModel costs(cluster, 8);
  const OpWork wide{"linear", 1e12, 0, 1 << 20, 1 << 20, 1 << 20, DType::bf16};
  CHECK(costs.op_seconds(wide) == Approx(3e-6 + 1e-2).epsilon(1e-3));
  const OpWork narrow{"linear", 1e12, 0, 64, 1 << 20, 1 << 20, DType::bf16};
  CHECK(costs.op_seconds(narrow) == Approx(3e-6 + 2e-2).epsilon(1e-3));
  const OpWork small{"linear", 1e12, 0, 64, 32, 16, DType::bf16};
  CHECK(costs.op_seconds(small) == Approx(3e-6 + 4e-2));
}

TEST_CASE("ops without rates of their own use the rates of other", "[planner]") {
  const ClusterSpec cluster = small_cluster();
  const CostModel costs(cluster, 8);
  CHECK(costs.op_seconds({"norm", 5, 1e9, 0, 0, 0, DType::bf16}) == Approx(1e-3));
  CHECK(costs.op_seconds({"attention", 5e12, 1e9, 0, 0, 0, DType::bf16}) == Approx(0.1));
}

TEST_CASE("missing profiles and rates of a cluster are reported", "[planner]") {
  ClusterSpec cluster = small_cluster(4);
  CHECK_NOTHROW(CostModel(cluster, 400));
  cluster.nodes = 2;
  CHECK_THROWS_WITH(CostModel(cluster, 9), Catch::Contains("8 ranks at most, not 9"));
  cluster.profiles[0].ranks = 2;
  CHECK_NOTHROW(CostModel(cluster, 2));
  CHECK_THROWS_WITH(CostModel(cluster, 4), Catch::Contains("4 ranks on a node (profiles for: 2)"));
  cluster = small_cluster();
  std::erase_if(cluster.profiles[0].products, [](const ProductRates& p) { return p.compute == "bf16"; });
  CHECK_THROWS_WITH(CostModel(cluster, 1).op_seconds({"linear", 1, 1, 1, 1, 1, DType::bf16}),
                    Catch::Contains("no rates of linear in bf16"));
}

TEST_CASE("the time of a group's communication follows the links it uses", "[planner]") {
  const ClusterSpec cluster = small_cluster(8);
  const CostModel costs(cluster, 64);
  constexpr int64_t kBytes = 1'000'000'000;
  const auto seconds = [&](const std::vector<int>& r, CommKind k) { return costs.comm_seconds(k, r, kBytes); };
  CHECK(seconds(ranks(3, 1), CommKind::all_reduce) == 0);
  CHECK(seconds(ranks(0, 8), CommKind::all_reduce) == Approx(0.01 + 3 * 5e-6));
  CHECK(seconds(ranks(0, 8, 8), CommKind::all_reduce) == Approx(0.1 + 3 * 10e-6));    // one rank of each node
  CHECK(seconds(ranks(0, 16, 4), CommKind::all_reduce) == Approx(0.05 + 4 * 10e-6));  // two of each share two links
  CHECK(seconds(ranks(0, 64), CommKind::all_gather) == Approx(1.0 / 80 + 6 * 10e-6));
  CHECK(seconds(ranks(6, 2), CommKind::send) == Approx(0.01 + 5e-6));
  CHECK(seconds(ranks(7, 2), CommKind::send) == Approx(0.1 + 10e-6));
  CHECK(seconds(ranks(0, 16), CommKind::all_to_all) == Approx(0.1 * 8 / 15 + 4 * 10e-6));
}

TEST_CASE("an all-to-all with uneven pieces takes as long as its busiest rank", "[planner]") {
  const ClusterSpec cluster = small_cluster(8);
  const CostModel costs(cluster, 16);
  constexpr int64_t kPiece = 500'000'000;
  const std::vector<int> all = ranks(0, 16);
  // As in a gather by nodes: rank 0 sends to itself and to rank 8, and receives from ranks 0 and 1; there is a rank
  // both of whose pieces come from the other node.
  UnevenPieces pieces{std::vector<int64_t>(16), std::vector<int64_t>(16)};
  pieces.sends[0] = pieces.sends[8] = pieces.recvs[0] = pieces.recvs[1] = kPiece;
  CHECK(costs.comm_seconds(CommKind::all_to_all, all, kPiece, pieces) == Approx(0.1 + 4 * 10e-6));
  // Pieces that are equal after all take as long as where nothing is known about them.
  const UnevenPieces equal{std::vector<int64_t>(16, kPiece), std::vector<int64_t>(16, kPiece)};
  CHECK(costs.comm_seconds(CommKind::all_to_all, all, 15 * kPiece, equal) ==
        Approx(costs.comm_seconds(CommKind::all_to_all, all, 15 * kPiece)));
  // Nodes may have different numbers of the ranks: a rank's largest pieces go to as many as are elsewhere on average.
  const std::vector<int> pair{7, 8, 9};
  const UnevenPieces some{{0, kPiece, kPiece / 2}, {0, kPiece / 2, 0}};
  CHECK(costs.comm_seconds(CommKind::all_to_all, pair, 3 * kPiece / 2, some) == Approx(0.05 + 0.025 / 2 + 2 * 10e-6));
  // Within a node, all that is sent counts.
  CHECK(costs.comm_seconds(CommKind::all_to_all, ranks(0, 4), kPiece, {{0, kPiece, 0, 0}, {0, 0, 0, 0}}) ==
        Approx(0.005 + 2 * 5e-6));
}

TEST_CASE("communication overlaps ops only on clusters that can overlap", "[planner]") {
  ClusterSpec cluster = small_cluster();
  const OpWork op{"norm", 0, 1e9, 0, 0, 0, DType::bf16};  // 1 ms
  const std::vector<int> both = ranks(0, 2);
  constexpr int64_t kBytes = 200'000'000;  // 2 ms
  for (const bool overlaps : {true, false}) {
    cluster.overlaps = overlaps;
    const CostModel costs(cluster, 2);
    Timeline clock(costs);
    const double first = clock.started(CommKind::all_reduce, "data", both, kBytes, {});
    const double second = clock.started(CommKind::all_reduce, "data", both, kBytes, {});
    const double other = clock.started(CommKind::all_reduce, "tensor", both, kBytes, {});
    clock.called(op);
    clock.waited(first);
    clock.waited(other);
    clock.called(op);
    clock.waited(second);
    CHECK(clock.now() == Approx(overlaps ? 4.01e-3 : 8.015e-3).epsilon(1e-4));
    CHECK(clock.exposed() == Approx(overlaps ? 2.01e-3 : 6.015e-3).epsilon(1e-4));
  }
}

TEST_CASE("products take longer while communication is under way", "[planner]") {
  ClusterSpec cluster = small_cluster();
  cluster.slower_beside_communication = 0.25;
  const CostModel costs(cluster, 2);
  Timeline clock(costs);
  const std::vector<int> both = ranks(0, 2);
  const OpWork product{"linear", 4e11, 0, 1 << 20, 1 << 20, 1 << 20, DType::bf16};  // 4 ms
  const OpWork norm{"norm", 0, 1e9, 0, 0, 0, DType::bf16};                          // 1 ms
  clock.called(product);
  CHECK(clock.now() == Approx(4e-3));
  clock.started(CommKind::host, "data", both, 200'000'000, {});
  clock.called(product);
  CHECK(clock.now() == Approx(8e-3));
  clock.started(CommKind::all_reduce, "data", both, 800'000'000, {});  // 8.005 ms
  clock.called(product);
  CHECK(clock.now() == Approx(13e-3));
  clock.called(norm);
  CHECK(clock.now() == Approx(14e-3));
  clock.called(product);  // 2.005 ms of it beside communication, in which 1.604 ms of work are done
  CHECK(clock.now() == Approx(18.401e-3));
  clock.called(product);
  CHECK(clock.now() == Approx(22.401e-3));
}

TEST_CASE("copies of each lane run one after the other, beside the ops", "[planner]") {
  const ClusterSpec cluster = small_cluster();
  const CostModel costs(cluster, 1);
  Timeline clock(costs);
  const OpWork op{"norm", 0, 1e9, 0, 0, 0, DType::bf16};  // 1 ms
  constexpr int64_t kBytes = 100'000'000;                 // 2 ms
  const double first = clock.copy_started(CopyLane::to_device, kBytes, 0),
               second = clock.copy_started(CopyLane::to_device, kBytes, 0),
               other = clock.copy_started(CopyLane::to_host, kBytes, 0),
               after = clock.copy_started(CopyLane::to_host, kBytes, second);
  CHECK(first == Approx(2e-3));
  CHECK(second == Approx(4e-3));
  CHECK(other == Approx(2e-3));
  CHECK(after == Approx(6e-3));
  clock.called(op);
  CHECK(clock.now() == Approx(1e-3));
  clock.copy_waited(first);
  CHECK(clock.now() == Approx(2e-3));
  CHECK(clock.exposed_copies() == Approx(1e-3));
  clock.called(op);
  clock.copy_waited(other);  // over long ago
  CHECK(clock.exposed_copies() == Approx(1e-3));
  clock.copy_waited(after);
  CHECK(clock.now() == Approx(6e-3));
  CHECK(clock.exposed_copies() == Approx(4e-3));
  CHECK(clock.exposed() == 0);
}

TEST_CASE("updates by the host run beside the device's ops, and in their place on a CPU", "[planner]") {
  ClusterSpec cluster = small_cluster();
  cluster.host_update_gb_per_s = 100;
  const OpWork op{"norm", 0, 1e9, 0, 0, 0, DType::bf16};      // 1 ms
  const OpWork update{"adamw", 0, 3e8, 0, 0, 0, DType::f32};  // 3 ms by the host
  {
    const CostModel costs(cluster, 1);
    Timeline clock(costs);
    const double in = clock.copy_started(CopyLane::to_host, 100'000'000, 0);  // 2 ms
    const double first = clock.host_op_started(update, in), second = clock.host_op_started(update, 0);
    CHECK(first == Approx(5e-3));
    CHECK(second == Approx(8e-3));
    clock.called(op);
    CHECK(clock.now() == Approx(1e-3));
    clock.copy_waited(second);
    CHECK(clock.now() == Approx(8e-3));
    CHECK(clock.exposed_copies() == Approx(7e-3));
  }
  cluster.host_update_gb_per_s = 0;
  CHECK_THROWS_WITH(CostModel(cluster, 1).host_op_seconds(update),
                    Catch::Contains("made up") && Catch::Contains("host_update_gb_per_s"));
  cluster.device = ClusterDevice::cpu;
  const CostModel costs(cluster, 1);
  Timeline clock(costs);
  clock.called(op);
  CHECK(clock.host_op_started(update, 0) == Approx(1.3e-3));
  CHECK(clock.now() == Approx(1.3e-3));
}

TEST_CASE("copies take the cores of the ops of a CPU", "[planner]") {
  ClusterSpec cluster = small_cluster();
  cluster.device = ClusterDevice::cpu;
  const CostModel costs(cluster, 1);
  Timeline clock(costs);
  const double in = clock.copy_started(CopyLane::to_device, 100'000'000, 0),  // 2 ms each
      out = clock.copy_started(CopyLane::to_host, 100'000'000, 0);
  CHECK(in == Approx(2e-3));
  CHECK(out == Approx(4e-3));
  clock.called({"norm", 0, 1e9, 0, 0, 0, DType::bf16});  // 1 ms
  clock.copy_waited(out);
  CHECK(clock.now() == Approx(5e-3));
  CHECK(clock.exposed_copies() == Approx(4e-3));
  CHECK(costs.exposed_copy_seconds(2, 1) == 2);
}

TEST_CASE("copies on a cluster without a rate for them are refused", "[planner]") {
  ClusterSpec cluster = small_cluster();
  cluster.host_gb_per_s = 0;
  CHECK_THROWS_WITH(CostModel(cluster, 1).copy_seconds(1),
                    Catch::Contains("made up") && Catch::Contains("host_gb_per_s"));
}
