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

Sent predicted(const std::filesystem::path& run) {
  RunSpec spec = load_run_spec(run / "config.yaml");
  const ParallelSection& p = spec.parallel;
  const Mesh mesh = arrange(spec, static_cast<int>(p.tensor * p.sequence * p.data * p.pipeline.ranks));
  const auto ops = make_counting_ops();
  Sent sent;
  sent.between_nodes = bytes_between_nodes(spec, *ops);
  for (const auto& [key, t] : dry_run(spec, spec.model, *ops, mesh, 0).traffic)
    if (key.second != CommKind::host && key.second != CommKind::recv)
      sent.by_rank_0[fmt::format("{}.{}", key.first, name_of(key.second))] = t.bytes;
  return sent;
}

}  // namespace

TEST_CASE("a run sends the predicted bytes", "[ranks]") {
  const RanksWorkspace place;
  const auto check = [&](const std::string& family, const Layout& layout, const std::vector<std::string>& keys) {
    const std::string name = family + " " + layout.text() + fmt::format(" {}", keys.size());
    CAPTURE(name);
    std::vector<std::string> settings{"--set", "train.steps=4", "--set", "parallel.ranks_per_node=2"};
    for (const std::string& key : keys) settings.insert(settings.end(), {"--set", key});
    expect_success(place.train(place.spec(family), name, layout, settings));
    StepMetrics last;
    for_each_step(place.run_directory(name) / "metrics.jsonl", [&](const StepMetrics& m) { last = m; });
    CHECK(last.step == 4);
    const Sent sent = predicted(place.run_directory(name));
    CHECK(last.sent_bytes == sent.by_rank_0);
    CHECK(sent.between_nodes > 0);
    CHECK(last.between_nodes_bytes == sent.between_nodes);
    CHECK(last.predicted_peak_bytes.value_or(0) > 0);
    CHECK_THAT(read_file(place.run_directory(name) / "log.txt"), Catch::Contains("sent in a step, MiB"));
  };
  const Layout layouts[] = {{.tensor = 2, .sequence = 2},
                            {.tensor = 2, .data = 2, .zero = 3, .megatron = true, .recompute = "full"},
                            {.sequence = 2, .data = 2, .zero = 2, .recompute = "selective"},
                            {.data = 2, .zero = 1, .pipeline = 2},
                            {.tensor = 2, .pipeline = 2, .schedule = "zb-v"},
                            {.data = 2, .zero = 3, .pipeline = 2, .schedule = "zeropp"}};
  for (const Layout& layout : layouts)
    for (const std::string family : {"gpt", "llama"}) check(family, layout, {});
  // Through nodes, and quantized.
  check("gpt", {.data = 4, .zero = 3}, {"communication.by_nodes=true"});
  check("gpt", {.data = 4, .zero = 3},
        {"communication.weight_bits=8", "communication.node_weights=true", "communication.gradient_bits=4"});
  check("llama", {.sequence = 2, .data = 2, .zero = 1},
        {"communication.weight_bits=4", "communication.weight_differences=true", "communication.gradient_bits=4",
         "communication.by_nodes=true", "communication.node_gradient_bits=8", "precision.compute=bf16"});
}
