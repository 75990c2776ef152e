// A step of a real run sends exactly the bytes that dry runs counted: of rank 0, and between nodes.
#include <catch2/catch.hpp>

#include "config/load.h"
#include "dryrun/dry_run.h"
#include "io/filesystem.h"
#include "ranks/job.h"
#include "report/metrics.h"
#include "sharding/arrange.h"

using namespace fp;
using namespace fp::test;

namespace {

struct Sent {
  std::map<std::string, int64_t> by_rank_0;
  double between_nodes = 0;  // of a node, the mean
};

Sent predicted(const std::filesystem::path& run, int nodes) {
  RunSpec spec = load_run_spec(run / "config.yaml");
  const ParallelSection& p = spec.parallel;
  const Mesh mesh = arrange(spec, static_cast<int>(p.tensor * p.sequence * p.data * p.pipeline.ranks));
  const auto ops = make_counting_ops();
  Sent sent;
  for (int rank = 0; rank < mesh.size(); ++rank) {
    const TrafficTable traffic = dry_run(spec, spec.model, *ops, mesh, rank).traffic;
    sent.between_nodes += static_cast<double>(sent_between_nodes(traffic)) / nodes;
    for (const auto& [key, t] : traffic)
      if (rank == 0 && key.second != CommKind::host && key.second != CommKind::recv)
        sent.by_rank_0[fmt::format("{}.{}", key.first, name_of(key.second))] = t.bytes;
  }
  return sent;
}

}  // namespace

TEST_CASE("a run sends the predicted bytes", "[ranks]") {
  const RanksWorkspace place;
  const Layout layouts[] = {{.tensor = 2, .sequence = 2},
                            {.tensor = 2, .data = 2, .zero = 3, .megatron = true, .recompute = "full"},
                            {.sequence = 2, .data = 2, .zero = 2, .recompute = "selective"},
                            {.data = 2, .zero = 1, .pipeline = 2},
                            {.tensor = 2, .pipeline = 2, .schedule = "zb-v"},
                            {.data = 2, .zero = 3, .pipeline = 2, .schedule = "zeropp"}};
  for (const Layout& layout : layouts)
    for (const std::string family : {"gpt", "llama"}) {
      const std::string name = family + " " + layout.text();
      CAPTURE(name);
      expect_success(place.train(place.spec(family), name, layout,
                                 {"--set", "train.steps=4", "--set", "parallel.ranks_per_node=2"}));
      StepMetrics last;
      for_each_step(place.run_directory(name) / "metrics.jsonl", [&](const StepMetrics& m) { last = m; });
      CHECK(last.step == 4);
      const Sent sent = predicted(place.run_directory(name), 2);
      CHECK(last.sent_bytes == sent.by_rank_0);
      CHECK(sent.between_nodes > 0);
      CHECK(last.between_nodes_bytes == sent.between_nodes);
      CHECK(last.predicted_peak_bytes.value_or(0) > 0);
      CHECK_THAT(read_file(place.run_directory(name) / "log.txt"), Catch::Contains("sent in a step, MiB"));
    }
}
