// The candidates of the search are all legal plans and no others.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "base/philox.h"
#include "config/load.h"
#include "dryrun/setup.h"
#include "planner/candidates.h"
#include "sharding/arrange.h"
#include "sharding/pipeline_plan.h"
#include "small_cluster.h"

using namespace fp;

namespace {

// Whether a run accepts the plan: by its checks, with the generated schedules.
bool is_accepted(const RunSpec& spec, const Plan& plan, int ranks) {
  try {
    RunSpec s = with_plan(spec, plan);
    validate(s);
    arrange(s, ranks);
    const PipelinePlan pipeline = plan_pipeline(s);
    for (const int n : step_sizes(s.train, static_cast<int>(s.parallel.data))) pipeline.step(n);
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

// Plans for 4 ranks, legal or not, that the search would consider if they were legal.
std::vector<Plan> plans_of_four(int64_t layers, int64_t global_batch) {
  std::vector<Plan> plans;
  for (const int64_t tensor : {1, 2, 4})
    for (const int64_t sequence : {1, 2, 4})
      for (const int64_t pipeline : {1, 2, 4})
        for (const int64_t data : {1, 2, 4})
          for (const int64_t micro_batch : {1, 2, 4, 8})
            for (const PipelineSchedule k :
                 {PipelineSchedule::one_f_one_b, PipelineSchedule::interleaved, PipelineSchedule::interleaved_zb,
                  PipelineSchedule::zb_h1, PipelineSchedule::zb_h2, PipelineSchedule::zb_v, PipelineSchedule::dualpipev,
                  PipelineSchedule::bfs, PipelineSchedule::chimera, PipelineSchedule::bitpipe,
                  PipelineSchedule::zeropp})
              for (const int64_t chunks : {0, 2, 3, 6}) {
                if (pipeline == 1 && k == PipelineSchedule::bfs) continue;  // for weights in host memory
                if (micro_batch > 1 && global_batch / data / micro_batch < pipeline) continue;  // mostly bubble
                if (any_chunks(k) != (chunks > 0) || layers % std::max<int64_t>(chunks * pipeline, 1) != 0) continue;
                Plan p{tensor, sequence, pipeline, data, k, chunks};
                p.w_pass = k == PipelineSchedule::chimera || k == PipelineSchedule::bitpipe;
                p.micro_batch = micro_batch;
                plans.push_back(p);
              }
  return plans;
}

}  // namespace

TEST_CASE("candidates are exactly the plans that a run accepts", "[planner][candidates]") {
  const RunSpec spec = parse_run_spec(
      "{model: {family: llama, layers: 12, hidden: 64, heads: 4, kv_heads: 2, ffn: 128, vocab: 256}, "
      "train: {global_batch: 8}, memory: {recompute: none}, parallel: auto}",
      "t");
  std::set<Plan> expected;
  for (const Plan& plan : plans_of_four(spec.model.layers, spec.train.global_batch))
    if (is_accepted(spec, plan, 4))
      for (int64_t zero = 0; zero <= (plan.data * plan.sequence > 1 ? 3 : 0); ++zero)
        for (const bool megatron : {false, true}) {
          Plan p = plan;
          p.zero_stage = zero;
          p.megatron_sp = megatron;
          if (megatron && p.tensor == 1) continue;
          expected.insert(p);
          p.optimizer = Offload::host;
          p.subgroup = 1024;  // the least, for so small a model
          expected.insert(p);
          if (p.pipeline > 1) continue;
          p.weights = Offload::host;
          expected.insert(p);
        }
  const std::vector<Plan> all = Candidates(spec, 4, small_cluster()).all();
  const std::set<Plan> found(all.begin(), all.end());
  CHECK(found.size() == all.size());
  CHECK(found.size() > 300);
  for (const Plan& p : expected) {
    INFO(describe(p));
    CHECK(found.count(p) == 1);
  }
  CHECK(found.size() == expected.size());
}

TEST_CASE("every candidate of random specs has a schedule that verifies", "[planner][candidates]") {
  const Philox::Key key = Philox::key(11, Purpose::sampling);
  for (uint32_t round = 0; round < 25; ++round) {
    const auto bits = Philox::block({round, 0, 0, 0}, key);
    const auto pick = [&](size_t i, const std::vector<int>& values) { return values[bits[i] / 7 % values.size()]; };
    const int ranks = pick(0, {2, 3, 4, 6, 8, 12, 16, 24});
    const std::string text = fmt::format(
        "{{model: {{layers: {}, hidden: 96, heads: {}, vocab: 256}}, train: {{global_batch: {}{}}}, parallel: auto}}",
        pick(1, {3, 4, 7, 8, 12, 24}), pick(2, {2, 3, 4, 12}), pick(3, {4, 6, 12, 16, 48}),
        bits[0] % 4 == 0 ? ", ramp_start_batch: 2, ramp_increment: 2, ramp_samples: 100" : "");
    const RunSpec spec = parse_run_spec(text, "t");
    const std::vector<Plan> all = Candidates(spec, ranks, small_cluster(4)).all();
    for (size_t i = bits[1] % 7; i < all.size(); i += std::max<size_t>(all.size() / 12, 1)) {
      INFO(text << ": " << ranks << " ranks, " << describe(all[i]));
      CHECK(is_accepted(spec, all[i], ranks));
    }
  }
}

TEST_CASE("keys that the spec sets keep their values in every candidate", "[planner][candidates]") {
  const std::string model = "model: {layers: 8, hidden: 64, heads: 8, vocab: 256}, train: {global_batch: 16}, ";
  const RunSpec v =
      parse_run_spec("{" + model + "parallel: {auto: [all], pipeline: {schedule: zb-v}, tensor: 2}}", "t");
  const std::vector<Plan> all = Candidates(v, 8, small_cluster()).all();
  CHECK(!all.empty());
  for (const Plan& p : all) CHECK((p.tensor == 2 && p.schedule == PipelineSchedule::zb_v && p.pipeline > 1));

  const RunSpec micro = parse_run_spec("{" + model + "parallel: {auto: [micro_batch], data: 2}}", "t");
  std::set<int64_t> sizes;
  for (const Plan& p : Candidates(micro, 2, small_cluster()).all()) sizes.insert(p.micro_batch);
  CHECK(sizes == std::set<int64_t>{1, 2, 4, 8});
}

TEST_CASE("candidates keep the weights on the device where other keys need them there", "[planner][candidates]") {
  const auto any_on_host = [](const std::string& more) {
    const RunSpec spec = parse_run_spec(
        "{model: {layers: 4, hidden: 64, heads: 4, vocab: 256}, train: {global_batch: 8, micro_batch: 1}, memory: "
        "auto, "
        "parallel: {data: 4, zero_stage: 1}" +
            more + "}",
        "t");
    const std::vector<Plan> all = Candidates(spec, 4, small_cluster()).all();
    CHECK(std::ranges::any_of(all, [](const Plan& p) { return p.optimizer == Offload::host; }));
    return std::ranges::any_of(all, [](const Plan& p) { return p.weights == Offload::host; });
  };
  CHECK(any_on_host(""));
  CHECK_FALSE(any_on_host(", eval: {sample_prompt: A}"));
  CHECK_FALSE(any_on_host(", optimizer: {kind: muon}"));
  CHECK_FALSE(any_on_host(", communication: {weight_bits: 4, weight_differences: true}"));
}

TEST_CASE("candidates keep whole weights on every rank where a sample text needs them", "[planner][candidates]") {
  const auto highest_stage = [](const std::string& more) {
    const RunSpec spec = parse_run_spec(
        "{model: {layers: 4, hidden: 64, heads: 4, vocab: 256}, train: {global_batch: 8, micro_batch: 1}, parallel: "
        "{auto: [zero_stage], data: 4}" +
            more + "}",
        "t");
    const Candidates candidates(spec, 4, small_cluster());
    int64_t highest = 0;
    for (const Plan& p : candidates.all())
      for (const Plan& q : candidates.with_less_memory(p)) highest = std::max(highest, q.zero_stage);
    return highest;
  };
  CHECK(highest_stage("") == 3);
  CHECK(highest_stage(", eval: {sample_prompt: A}") == 2);
}

TEST_CASE("candidates keep tensor parallelism within nodes and state within device memory", "[planner][candidates]") {
  RunSpec spec =
      parse_run_spec("{model: {preset: gpt3-175b, vocab: 50257}, train: {global_batch: 96}, parallel: auto}", "t");
  ClusterSpec cluster = small_cluster(4);
  for (const Plan& p : Candidates(spec, 96, cluster).leads()) CHECK((4 % p.tensor == 0 || p.tensor % 4 == 0));
  CHECK(!Candidates(spec, 96, cluster).leads().empty());
  CHECK(!Candidates(spec, 8, cluster).leads().empty());
  spec.parallel.open.erase(std::ranges::find(spec.parallel.open, "offload.weights"));
  // In bf16 and with the optimizer in host memory, 6 bytes a parameter stay; without, 18.
  CHECK(!Candidates(spec, 16, cluster).leads().empty());
  CHECK(Candidates(spec, 8, cluster).leads().empty());
  cluster.host_gb_per_s = 0;
  CHECK(Candidates(spec, 16, cluster).leads().empty());
}

TEST_CASE("a plan is the same after conversion to JSON and back") {
  const Plan plan{2,
                  3,
                  4,
                  5,
                  PipelineSchedule::zb_v,
                  6,
                  true,
                  true,
                  2,
                  7,
                  Recompute::full,
                  Offload::host,
                  4096,
                  256,
                  512,
                  Offload::host,
                  Offload::host,
                  0.25,
                  2048};
  CHECK(plan_from_json(to_json(plan)) == plan);
  CHECK(plan_from_json(to_json(Plan())) == Plan());
}

TEST_CASE("candidates quantize gradients only within the limit of their error", "[planner][candidates]") {
  const auto bits = [](const std::string& communication, const std::string& parallel = "auto") {
    const RunSpec spec = parse_run_spec(
        "{model: {layers: 4, hidden: 64, heads: 4, vocab: 256}, train: {global_batch: 8}, parallel: " + parallel +
            ", communication: {" + communication + "}}",
        "t");
    std::set<int64_t> found;
    const std::vector<Plan> all = Candidates(spec, 8, small_cluster(4)).all();
    CHECK(std::ranges::any_of(all, [](const Plan& p) { return p.zero_stage <= 1; }));
    for (const Plan& p : all) {
      found.insert(p.gradient_bits);
      const CommunicationSection chosen = with_plan(spec, p).communication;
      CHECK(chosen.gradient_bits == p.gradient_bits);
      CHECK((p.zero_stage > 0 || p.gradient_bits == 0));
    }
    return found;
  };
  using Bits = std::set<int64_t>;
  CHECK(bits("") == Bits{0});
  CHECK(bits("max_gradient_error: 0.5") == Bits{0, 4});
  CHECK(bits("max_gradient_error: 0.35") == Bits{0, 8});
  CHECK(bits("max_gradient_error: 0.35, rotate_gradients: true, error_feedback: 0.5") == Bits{0, 4});
  CHECK(bits("max_gradient_error: 0.02") == Bits{0});
  CHECK(bits("gradient_bits: 8") == Bits{8});
  CHECK(bits("max_gradient_error: 0.5", "{auto: [all], zero_stage: 0}") == Bits{0});
}

TEST_CASE("candidates keep weights in nodes under ZeRO 3 where ranks are on several nodes", "[planner][candidates]") {
  const auto all = [](int ranks_per_node, const std::string& communication) {
    const RunSpec spec = parse_run_spec(
        "{model: {layers: 4, hidden: 64, heads: 4, vocab: 256}, train: {global_batch: 8}, parallel: auto, "
        "communication: {" +
            communication + "}}",
        "t");
    return Candidates(spec, 8, small_cluster(ranks_per_node)).all();
  };
  const auto kept = [](const Plan& p) { return p.node_weights; };
  const std::vector<Plan> several = all(4, "");
  CHECK(std::ranges::any_of(several, kept));
  for (const Plan& p : several) CHECK((p.zero_stage == 3 || !p.node_weights));
  CHECK(std::ranges::none_of(all(8, ""), kept));
  CHECK(std::ranges::none_of(all(1, ""), kept));
  const std::vector<Plan> written = all(4, "node_weights: true");
  CHECK(!written.empty());
  for (const Plan& p : written) CHECK((p.zero_stage == 3 && p.node_weights));
}
