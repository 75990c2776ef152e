// Keys that a run spec leaves to the planner.
#include <algorithm>

#include "config/open_keys.h"
#include "expect.h"

using namespace fp;

namespace {

std::vector<std::string> open_of(const std::string& text, const std::vector<std::string>& sets = {}) {
  return parse_run_spec(text, "run.yaml", sets).parallel.open;
}

// gradient_bits are only open with a limit of the error.
std::vector<std::string> all_but(std::vector<std::string> left_out) {
  left_out.emplace_back("gradient_bits");
  std::vector<std::string> names;
  for (const OpenKey& key : open_keys())
    if (std::find(left_out.begin(), left_out.end(), key.name) == left_out.end()) names.emplace_back(key.name);
  return names;
}

std::vector<std::string> keys_of_memory() {
  std::vector<std::string> names;
  for (const OpenKey& key : open_keys())
    if (key.path.starts_with("memory.")) names.emplace_back(key.name);
  return names;
}

}  // namespace

TEST_CASE("parallel auto leaves every key that is not written to the planner", "[config][auto]") {
  CHECK(open_of("parallel: auto") == all_but({}));
  CHECK(open_of("parallel: {auto: [all]}") == all_but({}));
  CHECK(open_of("parallel: {auto: [all], tensor: 2, pipeline: {schedule: zb-v}}") ==
        all_but({"tensor", "pipeline.schedule"}));
  CHECK(open_of("{parallel: auto, train: {micro_batch: 4}, memory: {recompute: full}}") ==
        all_but({"micro_batch", "recompute"}));
  CHECK(open_of("parallel: auto", {"parallel.tensor=2", "train.micro_batch=1"}) == all_but({"tensor", "micro_batch"}));
  CHECK(open_of("{}", {"parallel=auto", "parallel.zero_stage=1"}) == all_but({"zero_stage"}));
}

TEST_CASE("parallel auto leaves the bits of gradients to the planner if there is a limit of their error", "[config]") {
  const auto chosen = [](const std::string& communication) {
    const std::vector<std::string> open = open_of("{parallel: auto, communication: {" + communication + "}}");
    return std::find(open.begin(), open.end(), "gradient_bits") != open.end();
  };
  CHECK(chosen("max_gradient_error: 0.5"));
  CHECK(chosen("max_gradient_error: 0.5, rotate_gradients: true"));
  CHECK_FALSE(chosen("max_gradient_error: 0"));
  CHECK_FALSE(chosen("max_gradient_error: 0.5, gradient_bits: 8"));
}

TEST_CASE("a list in parallel.auto names the keys that the planner chooses", "[config][auto]") {
  CHECK(open_of("parallel: {auto: [data, tensor]}") == std::vector<std::string>{"tensor", "data"});
  CHECK(open_of("parallel: {auto: [pipeline], pipeline: {ranks: 2}}") ==
        std::vector<std::string>{"pipeline.schedule", "pipeline.chunks", "pipeline.w_pass"});
  CHECK(open_of("parallel: {auto: [pipeline], pipeline: {schedule_file: mine.csv}}") ==
        std::vector<std::string>{"pipeline.ranks"});
  CHECK(open_of("parallel: {auto: [recompute], pipeline: {ranks: 2, recompute: [none, full]}}").empty());
  for (const std::string offload : {"optimizer: host", "optimizer: none", "optimizer: host, device_share: 0.5"})
    CHECK(open_of("{parallel: {auto: [device_share]}, memory: {offload: {" + offload + "}}}") ==
          (offload == "optimizer: host" ? std::vector<std::string>{"device_share"} : std::vector<std::string>{}));
  CHECK(open_of("{parallel: auto, optimizer: {kind: muon}, memory: {offload: {optimizer: host}}}") ==
        all_but({"offload.optimizer", "offload.weights", "device_share"}));
  CHECK(open_of("{parallel: auto, memory: {offload: {optimizer: none}}}") ==
        all_but({"offload.optimizer", "offload.weights", "device_share", "subgroup"}));
  CHECK(open_of("{parallel: {auto: [offload.optimizer, offload.weights]}, eval: {sample_prompt: A}}") ==
        std::vector<std::string>{"offload.optimizer"});
  CHECK(open_of("{parallel: {auto: [offload.weights]}, memory: {offload: {optimizer: host, device_share: 0.5, "
                "early_gradients: true}}}")
            .empty());
  CHECK_THAT(error_of("parallel: {auto: [tensr]}"), says("did you mean 'tensor'?"));
  CHECK_THAT(error_of("parallel: automatic"), says("must be a map of keys"));
}

TEST_CASE("memory auto adds its keys to whatever list parallel.auto is", "[config][auto]") {
  const std::vector<std::string> memory = keys_of_memory();
  const auto with = [&](std::vector<std::string> names) {
    names.insert(names.end(), memory.begin(), memory.end());
    return names;
  };
  CHECK(open_of("memory: auto") == memory);
  CHECK(open_of("{memory: auto, parallel: {auto: [tensor]}}") == with({"tensor"}));
  CHECK(open_of("memory: auto", {"parallel.auto=[tensor]"}) == with({"tensor"}));
  CHECK(open_of("memory: auto", {"parallel.auto=[tensor]", "parallel.auto=[data]"}) == with({"data"}));
  CHECK(open_of("memory: auto", {"parallel={auto: [data]}"}) == with({"data"}));
  CHECK(open_of("parallel: {auto: [tensor]}", {"memory=auto"}) == with({"tensor"}));
  CHECK(open_of("{memory: auto, parallel: {auto: []}}", {"train.steps=5"}) == memory);
  CHECK(open_of("memory: auto", {"parallel.auto=[]"}).empty());
  CHECK(open_of("memory: auto", {"parallel.auto=[]", "memory=auto"}) == memory);
  CHECK(open_of("memory: auto", {"parallel=auto"}) == all_but({}));
  CHECK(open_of("memory: auto", {"parallel.auto=[tensor]", "memory.recompute=full", "memory.mlp_tile_tokens=8"}) ==
        std::vector<std::string>{"tensor", "offload.activations", "sequence_chunk_tokens", "offload.optimizer",
                                 "offload.weights", "device_share", "subgroup"});
  CHECK_THAT(error_of("{memory: auto, parallel: automatic}"), says("must be a map of keys"));
}

TEST_CASE("a budget leaves the keys of memory that are not written to the planner", "[config][auto]") {
  const std::vector<std::string> memory = keys_of_memory();
  CHECK(memory.size() == 8);
  CHECK(open_of("memory: auto") == memory);
  CHECK(open_of("memory: {device_gib: 16}") == memory);
  CHECK(open_of("memory: {host_gib: 128}") == memory);
  CHECK(open_of("{}", {"memory.device_gib=0.5"}) == memory);
  CHECK(open_of("memory: {device_gib: 16, recompute: full}").size() == memory.size() - 1);
  CHECK(open_of("{parallel: {auto: [data]}, memory: {device_gib: 16}}").size() == memory.size() + 1);
  CHECK(open_of("{parallel: {auto: []}, memory: {device_gib: 16}}").empty());
  CHECK(open_of("memory: {device_gib: 16}", {"parallel.auto=[]"}).empty());
  CHECK(open_of("memory: {device_gib: 0, host_gib: 0}").empty());
  CHECK_THAT(error_of("memory: {device_gib: -1}"), says("memory.device_gib"));
}

TEST_CASE("checks that involve open keys are deferred until the keys are chosen", "[config][auto]") {
  CHECK(error_of("parallel: {auto: [all], pipeline: {chunks: 4, group: 8}}").empty());
  CHECK(error_of("{parallel: auto, train: {global_batch: 6}}").empty());
  CHECK_THAT(error_of("parallel: {pipeline: {chunks: 4}}"), says("parallel.pipeline.chunks has no effect"));
  CHECK_THAT(error_of("parallel: {auto: [all], pipeline: {ranks: 1, schedule: zb-v}}"), says("has no effect with"));
}

TEST_CASE("a spec with open keys survives dump and parse", "[config][auto]") {
  for (const char* text : {"parallel: auto", "memory: {device_gib: 16, host_gib: 128}",
                           "parallel: {auto: [pipeline, data], pipeline: {schedule: zb-v}, tensor: 2}"}) {
    const RunSpec spec = parse_run_spec(text, "run.yaml");
    CHECK(parse_run_spec(dump(spec), "dump") == spec);
    CHECK_THROWS_WITH(require_planned(spec, "it"), Catch::Contains("parallel.auto leaves "));
  }
  CHECK_NOTHROW(require_planned(parse_run_spec("{}", "run.yaml"), "it"));
}
