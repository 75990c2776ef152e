// The same training on every mesh, over MPI, started as a user starts it: losses and final parameters of any layout are
// those of one rank, a run repeats bit for bit, and a run resumes on another mesh.
#include <catch2/catch.hpp>

#include "io/filesystem.h"
#include "ranks/job.h"
#include "ranks/outcome.h"
#include "report/metrics.h"

using namespace fp;
using namespace fp::test;

namespace {

constexpr int kMeshSteps = 20;
const std::vector<std::string> kMeshRun{"--set", "train.steps=20", "--set", "checkpoint.every=10"};

const std::vector<Layout>& mesh_layouts() {
  static const std::vector<Layout> list = {{1, 1, 2, 0},
                                           {2, 1, 1, 1, true},
                                           {1, 2, 1, 3},
                                           {1, 1, 2, 2, false, "full"},
                                           {2, 1, 1, 3, true, "selective"},
                                           {4, 1, 1, 0, true, "selective"},
                                           {1, 4, 1, 2},
                                           {1, 2, 2, 1, false, "full"},
                                           {2, 1, 2, 3, true},
                                           {2, 2, 1, 0},
                                           {2, 2, 2, 3, true, "full"},
                                           {1, 4, 2, 2},
                                           {4, 2, 1, 1},
                                           {1, 1, 8, 3, false, "selective"},
                                           {2, 1, 4, 0, true}};
  return list;
}

// Compares a run on one rank with those that begin on eight and go on in each of these layouts.
void check_resumes(const std::vector<Layout>& layouts, const std::vector<std::string>& settings) {
  const RanksWorkspace w;
  const auto spec = w.spec("llama");
  expect_success(w.train(spec, "one", {}, settings));
  expect_success(w.train(spec, "saved", {2, 2, 2, 3}, settings));
  const std::string saved = (w.run_directory("saved") / "checkpoints" / "step-00000010").string();
  for (const Layout& layout : layouts) {
    INFO(layout.text());
    const std::string name = "resumed-" + layout.text();
    std::vector<std::string> more = settings;
    more.insert(more.end(), {"--resume", saved});
    expect_success(w.train(spec, name, layout, more));
    CHECK(history(w.run_directory(name)).begin()->first == 11);
    check_like_one(w, name, kMeshSteps);
  }
}

// Trains in each layout with and without overlap: losses and norms have the same bits. Tensor-parallel ranks pass rows
// in two pieces.
void check_overlap_changes_nothing(const std::string& family, const std::vector<Layout>& layouts) {
  const RanksWorkspace w;
  const auto spec = w.spec(family);
  for (const Layout& layout : layouts) {
    INFO(layout.text());
    const auto history_of = [&](bool overlap) {
      const std::string name = layout.text() + (overlap ? "-later" : "-at-once");
      std::vector<std::string> more{"--set", fmt::format("communication.overlap={}", overlap)};
      const int tokens = layout.tensor == 1 ? 30 : 512 * layout.sequence * (layout.megatron ? layout.tensor : 1);
      for (const std::string& set :
           {std::string("train.steps=6"), std::string("model.layers=4"), fmt::format("data.seq_len={}", tokens),
            fmt::format("model.max_position={}", tokens), std::string("communication.tensor_pieces=2")})
        more.insert(more.end(), {"--set", set});
      expect_success(w.train(spec, name, layout, more));
      return history(w.run_directory(name));
    };
    const auto later = history_of(true);
    CHECK(later.size() == 6);
    CHECK(later == history_of(false));
  }
}

}  // namespace

TEST_CASE("mpirun trains like one rank on any mesh", "[ranks]") {
  const auto [family, first] = GENERATE(table<std::string, size_t>({{"gpt", 0}, {"llama", 1}, {"phi3", 2}}));
  check_layouts(family, mesh_layouts(), 2 * first, 6, kMeshRun, kMeshSteps);
}

TEST_CASE("mpirun trains every family like one rank on any mesh", "[ranks][nightly]") {
  check_layouts(GENERATE("gpt", "llama", "phi3"), mesh_layouts(), 0, 1, kMeshRun, kMeshSteps);
}

TEST_CASE("overlap changes no bit under mpirun", "[ranks]") {
  check_overlap_changes_nothing(
      "llama", {{1, 1, 2, 2}, {2, 1, 1, 1}, {2, 1, 2, 1, true}, piped(2, "zb-v", {.data = 2, .zero = 1})});
}

TEST_CASE("overlap changes no bit under mpirun on any mesh", "[ranks][nightly]") {
  std::vector<Layout> layouts = mesh_layouts();
  for (const char* schedule : {"1f1b", "zb-v", "chimera"})
    layouts.push_back(piped(2, schedule, {.data = 2, .zero = 1}));
  check_overlap_changes_nothing(GENERATE("gpt", "llama", "phi3"), layouts);
}

TEST_CASE("a run resumes on another mesh", "[ranks]") {
  check_resumes({{}, {1, 1, 1, 0, false, "full"}, {2, 1, 1, 0, true}, {1, 1, 2, 2}, {1, 2, 2, 1}, {4, 1, 1, 3}},
                kMeshRun);
}

TEST_CASE("a run with muon resumes on another mesh", "[ranks]") {
  std::vector<std::string> settings = kMeshRun;
  settings.insert(settings.end(), {"--set", "optimizer.kind=muon", "--set", "optimizer.eps=1e-4"});
  check_resumes({{}, {4, 1, 1, 3}, {1, 2, 2, 1}}, settings);
}

namespace {

struct SavedRun {
  std::filesystem::path checkpoint;
  decltype(history(std::filesystem::path())) whole;  // the history of the uninterrupted run
};

// Checks that a run of 20 steps has the same bits when it resumes from step 10.
SavedRun check_resumes_alike(const RanksWorkspace& w, const std::filesystem::path& spec, const Layout& layout,
                             std::vector<std::string> settings) {
  const std::string whole = "whole-" + layout.text(), resumed = "resumed-" + layout.text();
  expect_success(w.train(spec, whole, layout, settings));
  const std::filesystem::path saved = w.run_directory(whole) / "checkpoints" / "step-00000010";
  settings.insert(settings.end(), {"--resume", saved.string()});
  expect_success(w.train(spec, resumed, layout, settings));
  const auto expected = history(w.run_directory(whole)), got = history(w.run_directory(resumed));
  REQUIRE(got.size() == 10);
  for (const auto& [step, values] : got) CHECK(values == expected.at(step));
  return {saved, expected};
}

}  // namespace

TEST_CASE("a run that sends weight differences resumes with the same bits", "[ranks]") {
  const RanksWorkspace w;
  const auto spec = w.spec("llama");
  for (const bool sharded : {false, true}) {
    const Layout layout{1, 1, 4, sharded ? 3 : 1};
    INFO(layout.text());
    std::vector<std::string> settings = kMeshRun;
    for (const std::string set :
         {"precision.compute=bf16", "communication.weight_bits=4", "communication.weight_differences=true",
          "parallel.ranks_per_node=2", "communication.block=64"})
      settings.insert(settings.end(), {"--set", set});
    if (sharded)
      settings.insert(settings.end(),
                      {"--set", "communication.node_weights=true", "--set", "communication.by_nodes=true"});
    const auto [saved, expected] = check_resumes_alike(w, spec, layout, settings);
    // Runs on one rank, and those that send whole weights, round the parameters instead.
    const std::string other = "other-" + layout.text();
    expect_success(w.train(spec, other, {},
                           {"--set", "train.steps=12", "--set", "precision.compute=bf16", "--resume", saved.string()}));
    for (const auto& [step, values] : history(w.run_directory(other)))
      CHECK(values.first == Approx(expected.at(step).first).epsilon(0.05));
  }
}

TEST_CASE("a run that keeps what quantized sums lose resumes with the same bits", "[ranks]") {
  const RanksWorkspace w;
  const auto spec = w.spec("llama");
  const std::vector<std::string> feedback{"communication.gradient_bits=4", "communication.error_feedback=0.8",
                                          "communication.error_feedback_steps=6", "communication.block=64"};
  for (const Layout& layout : {Layout{1, 1, 4, 3}, Layout{2, 1, 2, 1}}) {
    INFO(layout.text());
    std::vector<std::string> settings = kMeshRun;
    for (const std::string& set : feedback) settings.insert(settings.end(), {"--set", set});
    settings.insert(settings.end(), {"--set", "parallel.ranks_per_node=2"});
    const auto [saved, expected] = check_resumes_alike(w, spec, layout, settings);
    // With another number of groups of ranks that sum together, errors begin at 0 again.
    const std::string other = "other-" + layout.text();
    std::vector<std::string> more = settings;
    more.insert(more.end(),
                {"--resume", saved.string(), "--set", "parallel.ranks_per_node=1", "--set", "train.steps=12"});
    Job job(w.train(spec, other, layout, more));
    CHECK(job.wait() == 0);
    CHECK(job.count("errors of quantized sums that are kept begin at 0") == (layout.data == 4 ? 1 : 0));
    for (const auto& [step, values] : history(w.run_directory(other)))
      CHECK(values.first == Approx(expected.at(step).first).epsilon(0.05));
  }
}

TEST_CASE("a run that rotates gradients resumes with the same bits", "[ranks]") {
  const RanksWorkspace w;
  const auto spec = w.spec("llama");
  // Norms are not a whole number of rotations, so that their ends are rotated with the zeros behind them.
  for (const std::string feedback : {"0", "0.8"}) {
    CAPTURE(feedback);
    std::vector<std::string> settings = kMeshRun;
    for (const std::string& set :
         {std::string("model.hidden=56"), std::string("model.heads=7"), std::string("model.kv_heads=7"),
          std::string("communication.gradient_bits=4"), std::string("communication.rotate_gradients=true"),
          "communication.error_feedback=" + feedback})
      settings.insert(settings.end(), {"--set", set});
    check_resumes_alike(w, spec, {1, 1, 2, feedback == "0" ? 1 : 2}, settings);
  }
}

TEST_CASE("a run with a limit of gradient errors resumes with the same bits", "[ranks]") {
  const RanksWorkspace w;
  const auto spec = w.spec("llama");
  const Layout layout{1, 1, 2, 2};
  std::vector<std::string> settings = kMeshRun;
  for (const std::string set : {"communication.gradient_bits=4", "communication.max_gradient_error=0.8"})
    settings.insert(settings.end(), {"--set", set});
  expect_success(w.train(spec, "whole", layout, settings));
  const std::filesystem::path saved = w.run_directory("whole") / "checkpoints" / "step-00000010";
  settings.insert(settings.end(), {"--resume", saved.string()});
  expect_success(w.train(spec, "resumed", layout, settings));
  const auto steps_of = [&](const std::string& name) {
    std::map<int64_t, StepMetrics> steps;
    for_each_step(w.run_directory(name) / "metrics.jsonl", [&](const StepMetrics& m) { steps[m.step] = m; });
    return steps;
  };
  const auto whole = steps_of("whole"), resumed = steps_of("resumed");
  REQUIRE(resumed.size() == 10);
  double widened = 0;
  for (const auto& [step, m] : resumed) {
    CAPTURE(step);
    CHECK(m.loss == whole.at(step).loss);
    CHECK(m.grad_norm == whole.at(step).grad_norm);
    CHECK(m.widened_parameters == whole.at(step).widened_parameters);
    widened += m.widened_parameters.value();
  }
  CHECK(widened > 0);
  CHECK(whole.at(2).widened_parameters.value() < whole.at(1).widened_parameters.value());
  CHECK_THAT(read_file(w.run_directory("whole") / "log.txt"),
             Catch::Contains("gradients are sent with 4 instead of 32"));
}

TEST_CASE("the loss by position is that of one rank on any mesh", "[ranks]") {
  const RanksWorkspace w;
  const auto spec = w.spec("llama");
  const std::vector<std::string> settings{"--set", "train.steps=4",          "--set", "data.seq_len=150",
                                          "--set", "model.max_position=150", "--set", "eval.by_position=true",
                                          "--set", "eval.samples=7"};
  const auto positions = [&](const std::string& name, const Layout& layout, int chunk) {
    auto more = settings;
    more.insert(more.end(), {"--set", fmt::format("memory.sequence_chunk_tokens={}", chunk)});
    expect_success(w.train(spec, name, layout, more));
    std::map<std::string, double> found;
    const std::string text = slurp(w.run_directory(name) / "metrics.jsonl");
    const auto last = nlohmann::json::parse(text.substr(text.rfind('\n', text.size() - 2) + 1));
    for (const auto& [key, value] : last.items())
      if (key.starts_with("val_loss_at.") || key.starts_with("val_loss_error_at.")) found[key] = value;
    return found;
  };
  const auto one = positions("one", {}, 0);
  REQUIRE(one.size() == 6);
  CHECK(one.contains("val_loss_at.0-64"));
  CHECK(one.contains("val_loss_error_at.128-150"));
  std::vector<Layout> layouts = {{2, 1, 2, 1, true}, {1, 2, 2, 3}};
  layouts.push_back({.data = 2, .pipeline = 2});
  for (const Layout& layout : layouts) {
    INFO(layout.text());
    const auto found = positions(layout.text(), layout, layout.pipeline > 1 ? 40 : 0);
    REQUIRE(found.size() == one.size());
    // The error is a small difference of large sums, so rounding shows in it more than in the loss.
    for (const auto& [key, value] : one)
      CHECK(found.at(key) == Approx(value).epsilon(key.starts_with("val_loss_at.") ? 1e-5 : 1e-3));
  }
}
