// Rank 0 sends exactly the bytes in a step of a real run that its dry run counted.
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

std::map<std::string, int64_t> predicted(const std::filesystem::path& run) {
  RunSpec spec = load_run_spec(run / "config.yaml");
  const ParallelSection& p = spec.parallel;
  const Mesh mesh = arrange(spec, static_cast<int>(p.tensor * p.sequence * p.data * p.pipeline.ranks));
  const auto ops = make_counting_ops();
  std::map<std::string, int64_t> sent;
  for (const auto& [key, t] : dry_run(spec, spec.model, *ops, mesh, 0).traffic)
    if (key.second != CommKind::host && key.second != CommKind::recv)
      sent[fmt::format("{}.{}", key.first, name_of(key.second))] = t.bytes;
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
      expect_success(place.train(place.spec(family), name, layout, {"--set", "train.steps=4"}));
      StepMetrics last;
      for_each_step(place.run_directory(name) / "metrics.jsonl", [&](const StepMetrics& m) { last = m; });
      CHECK(last.step == 4);
      CHECK(last.sent_bytes == predicted(place.run_directory(name)));
      CHECK(last.predicted_peak_bytes.value_or(0) > 0);
      CHECK_THAT(read_file(place.run_directory(name) / "log.txt"), Catch::Contains("sent in a step, MiB"));
    }
}
