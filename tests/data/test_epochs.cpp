// The length of a run in terms of its data.
#include <catch2/catch.hpp>

#include "base/error.h"
#include "config/load.h"
#include "config/run_length.h"
#include "data/sampling/epochs.h"
#include "data/support.h"

using namespace fp;
using namespace fp::test;
using Catch::Matchers::Contains;

namespace {

// Prepares "a" and "b" and returns a spec that trains on both, in samples of 16 tokens and batches of 4.
RunSpec spec_of(const TemporaryFolder& dir, const std::string& train) {
  for (const auto& [name, lines] : {std::pair{"a", 40}, std::pair{"b", 100}})
    prepare_lines(dir, numbered_lines(lines), name);
  return parse_run_spec(fmt::format("data: {{train: [{{path: {0}/a}}, {{path: {0}/b}}], seq_len: 16}}\n"
                                    "train: {{global_batch: 4, micro_batch: 4, {1}}}\n",
                                    dir.path.string(), train),
                        "run.yaml");
}

}  // namespace

TEST_CASE("train.epochs counts the samples of all datasets") {
  const TemporaryFolder dir;
  const RunSpec spec = spec_of(dir, "epochs: 1.5");
  const TrainSampler data(spec.data, 1);
  const uint64_t samples = data.epoch_samples(0) + data.epoch_samples(1);
  const RunSpec resolved = with_steps_of_data(spec);
  CHECK(resolved.train.epochs == 0);
  CHECK(static_cast<double>(samples_of_steps(resolved.train, resolved.train.steps)) >=
        1.5 * static_cast<double>(samples));
  CHECK(static_cast<double>(samples_of_steps(resolved.train, resolved.train.steps - 1)) <
        1.5 * static_cast<double>(samples));
  CHECK(with_steps_of_data(resolved) == resolved);
  CHECK(parse_run_spec(dump(resolved), "dumped") == resolved);
}

TEST_CASE("checks that need the number of steps follow when train.epochs gives it") {
  const TemporaryFolder dir;
  RunSpec spec = spec_of(dir, "epochs: 1");
  spec.schedule.warmup_steps = 5000;
  CHECK_THAT(message_of<ConfigError>([&] { with_steps_of_data(spec); }),
             Contains("schedule.warmup_steps = 5000 is over train.steps"));
  spec.data.train.clear();
  CHECK_THAT(message_of<ConfigError>([&] { with_steps_of_data(spec); }), Contains("data.train"));
}

TEST_CASE("a run's length is described in steps, tokens and epochs of each dataset") {
  const TemporaryFolder dir;
  RunSpec spec = spec_of(dir, "steps: 2000");
  const TrainSampler data(spec.data, 1);
  const std::vector<double> epochs = data.epochs(8000);
  CHECK(describe_length(spec, &data) ==
        fmt::format("2000 steps x 4 x 16 = 128k tokens, {:.1f} epochs of {}, {:.1f} of {}", epochs[0],
                    (dir / "a").string(), epochs[1], (dir / "b").string()));
  CHECK(describe_length(spec) == describe_length(spec, &data));
  CHECK(describe_length(spec, nullptr) == "2000 steps x 4 x 16 = 128k tokens");
  spec.train.steps = 1;
  CHECK_THAT(describe_length(spec, &data), Contains("1 step x 4 x 16 = 64 tokens, 0.0"));
  spec.train.objective = Objective::dpo;
  spec.data.sampling = Sampling::documents;
  CHECK(describe_length(spec, nullptr) == "1 step x 4 pairs x 2 x 16 = 128 tokens with padding");
  spec = parse_run_spec(
      "data: {seq_len: 100}\ntrain: {steps: 7, global_batch: 4, micro_batch: 2, ramp_start_batch: 2, "
      "ramp_increment: 2, ramp_samples: 10}\n",
      "run.yaml");
  CHECK(describe_length(spec) == "7 steps x 2 to 4 x 100 = 1.80k tokens");
}
