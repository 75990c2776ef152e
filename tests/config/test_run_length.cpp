// train.tokens and train.epochs instead of train.steps, and the batch-size ramp that they count.
#include <catch2/catch.hpp>

#include "base/error.h"
#include "config/expect.h"
#include "config/load.h"
#include "config/run_length.h"

namespace fp {
namespace {

TEST_CASE("the batch ramp rises at equal intervals and ends at the global batch", "[config]") {
  TrainSection t;
  t.global_batch = 32;
  t.micro_batch = 4;
  CHECK(global_batch_at(t, 0) == 32);
  t.ramp_start_batch = 8;
  t.ramp_increment = 8;
  t.ramp_samples = 300;  // three rises: at 100, 200, 300
  CHECK(global_batch_at(t, 0) == 8);
  CHECK(global_batch_at(t, 99) == 8);
  CHECK(global_batch_at(t, 100) == 16);
  CHECK(global_batch_at(t, 200) == 24);
  CHECK(global_batch_at(t, 299) == 24);
  CHECK(global_batch_at(t, 300) == 32);
}

TrainSection ramp(int64_t start, int64_t increment, int64_t samples, int64_t global) {
  TrainSection t;
  t.micro_batch = 1;
  t.ramp_start_batch = start;
  t.ramp_increment = increment;
  t.ramp_samples = samples;
  t.global_batch = global;
  return t;
}

TEST_CASE("samples and steps of a batch ramp are those of counting step by step", "[config]") {
  for (const TrainSection& t : {ramp(8, 8, 300, 32), ramp(1, 1, 1000, 7), ramp(3, 2, 50, 11), ramp(2, 2, 7, 64),
                                ramp(4, 4, 1, 8), ramp(5, 7, 333, 40), TrainSection()}) {
    uint64_t consumed = 0;
    for (int64_t steps = 0; steps < 400; ++steps) {
      CAPTURE(t.ramp_start_batch, t.ramp_increment, t.ramp_samples, t.global_batch, steps);
      REQUIRE(samples_of_steps(t, steps) == consumed);
      if (steps > 0) REQUIRE(steps_of_samples(t, consumed) == steps);
      REQUIRE(steps_of_samples(t, consumed + 1) == steps + 1);
      consumed += static_cast<uint64_t>(global_batch_at(t, consumed));
    }
  }
  TrainSection most;
  most.global_batch = 1'000'000'000;
  CHECK(samples_of_steps(most, 1'000'000'000'000'000) == uint64_t{1} << 63);
}

RunSpec spec_of(const std::string& train) {
  return parse_run_spec("data: {seq_len: 100}\ntrain: {global_batch: 4, micro_batch: 2, " + train + "}\n", "run.yaml");
}

TEST_CASE("train.tokens is resolved to the first number of steps that reach it", "[config]") {
  CHECK(spec_of("tokens: 4000").train.steps == 10);
  CHECK(spec_of("tokens: 4001").train.steps == 11);
  CHECK(spec_of("tokens: 1").train.steps == 1);
  const RunSpec spec = spec_of("tokens: 4001");
  CHECK(spec.train.tokens == 0);
  CHECK(parse_run_spec(dump(spec), "dumped") == spec);
  // 2 samples in each of the first 5 steps, then 4.
  CHECK(spec_of("tokens: 1800, ramp_start_batch: 2, ramp_increment: 2, ramp_samples: 10").train.steps == 7);
  CHECK(spec_of("tokens: 1801, ramp_start_batch: 2, ramp_increment: 2, ramp_samples: 10").train.steps == 8);
  RunSpec pairs = spec_of("objective: dpo, dpo: {reference: x}, tokens: 4000");
  CHECK(pairs.train.steps == 5);
}

TEST_CASE("only one of train.steps, train.tokens and train.epochs may be given", "[config]") {
  CHECK_THROWS_WITH(spec_of("tokens: 4000, steps: 3"),
                    "run.yaml:2:50: train.tokens = 4000 and train.steps = 3 both say how long the run is; remove one");
  CHECK_THROWS_WITH(spec_of("epochs: 1.5, steps: 3"),
                    Catch::Contains("train.epochs = 1.5 and train.steps = 3 both say how long the run is"));
  CHECK_THROWS_WITH(spec_of("epochs: 2, tokens: 3"),
                    Catch::Contains("train.tokens = 3 and train.epochs = 2 both say how long the run is"));
  CHECK_THROWS_WITH(spec_of("tokens: -1"), Catch::Contains("train.tokens: -1 is out of range"));
}

TEST_CASE("checks of train.steps wait for the data that train.epochs counts", "[config]") {
  const RunSpec spec = parse_run_spec("train: {epochs: 2}\nschedule: {warmup_steps: 5000}\n", "run.yaml");
  CHECK(spec.train.epochs == 2);
  CHECK_THROWS_WITH(parse_run_spec("train: {tokens: 2}\nschedule: {warmup_steps: 5000}\n", "run.yaml"),
                    Catch::Contains("schedule.warmup_steps = 5000 is over train.steps = 1"));
}

TEST_CASE("names that other programs use lead to the keys of fptrain", "[config]") {
  CHECK_THROWS_WITH(spec_of("gradient_accumulation_steps: 4"),
                    Catch::Contains("unknown key 'train.gradient_accumulation_steps'. Did you mean "
                                    "'train.global_batch' and 'train.micro_batch'?"));
  CHECK_THROWS_WITH(parse_run_spec("epochs: 3\n", "run.yaml"), Catch::Contains("Did you mean 'train.epochs'?"));
  CHECK_THROWS_WITH(spec_of("num_train_epochs: 3"), Catch::Contains("Did you mean 'train.epochs'?"));
}

}  // namespace
}  // namespace fp
