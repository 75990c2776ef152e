// Sequences in chunks, tiles of the MLP and activations in host memory over MPI, started as a user starts them: each
// with every axis, and together with several, losses and parameters equal those of one rank without them; a run has the
// same bits twice, and resumes with other settings on other meshes.
#include <catch2/catch.hpp>
#include <random>

#include "ranks/job.h"
#include "ranks/outcome.h"

using namespace fp;
using namespace fp::test;

namespace {

struct Savings {
  bool chunks = false, tiles = false, offload = false;

  std::string text() const {
    return fmt::format("{}{}{}", chunks ? " chunks" : "", tiles ? " tiles" : "", offload ? " offload" : "");
  }
};

struct Setting {
  Layout layout;
  Savings savings;
  std::string text() const { return layout.text() + savings.text(); }
};

std::vector<std::string> train_command(const RanksWorkspace& w, const std::filesystem::path& spec,
                                       const std::string& name, Setting s, std::vector<std::string> more = {}) {
  if (s.savings.offload) s.layout.recompute = "full";
  more.insert(more.begin(), kPipelineRun.begin(), kPipelineRun.end());
  if (s.savings.chunks) more.insert(more.end(), {"--set", "memory.sequence_chunk_tokens=8"});
  if (s.savings.tiles) more.insert(more.end(), {"--set", "memory.mlp_tile_tokens=7"});
  if (s.savings.offload) more.insert(more.end(), {"--set", "memory.offload.activations=host"});
  return w.train(spec, name, s.layout, more);
}

// Trains with each setting twice, and resumes from the middle of it with some others.
void check_settings(const std::vector<Setting>& settings, const std::vector<Setting>& others, size_t resumes = 2) {
  const RanksWorkspace w;
  const auto spec = w.spec("llama");
  expect_success(w.train(spec, "one", {}, kPipelineRun));
  for (size_t i = 0; i < settings.size(); ++i) {
    const Setting& s = settings[i];
    INFO(s.text());
    const std::string name = fmt::format("run-{}", i), again = name + "-again";
    expect_success(train_command(w, spec, name, s));
    check_like_one(w, name, kPipelineSteps);
    expect_success(train_command(w, spec, again, s));
    CHECK(history(w.run_directory(name)) == history(w.run_directory(again)));
    const std::string saved = (w.run_directory(name) / "checkpoints" / "step-00000010").string();
    for (size_t k = 0; k < resumes; ++k) {
      const Setting& other = others[(resumes * i + k) % others.size()];
      INFO("resumed with " << other.text());
      const std::string resumed = fmt::format("{}-resumed-{}", name, k);
      expect_success(train_command(w, spec, resumed, other, {"--resume", saved}));
      check_like_one(w, resumed, kPipelineSteps);
    }
  }
}

std::vector<Layout> axes() {
  return {{2, 1, 1, 0}, {1, 2, 1, 0}, {2, 1, 1, 0, true}, {1, 1, 2, 0},     {1, 1, 2, 1},
          {1, 1, 2, 2}, {1, 1, 2, 3}, piped(2, "1f1b"),   piped(2, "zb-v"), piped(2, "bitpipe")};
}

std::vector<Setting> others() {
  return {{{}, {true, false, false}},
          {{1, 2, 1, 0}, {true, true, true}},
          {{}, {}},
          {piped(2, "1f1b"), {false, true, true}},
          {{1, 1, 2, 3}, {true, false, true}}};
}

}  // namespace

TEST_CASE("mpirun with chunks, tiles and offloaded activations trains like one rank, and resumes elsewhere",
          "[ranks]") {
  check_settings({{{2, 1, 1, 0, true}, {true, true, true}}}, others(), 1);
}

TEST_CASE("mpirun with each saving and one other axis trains like one rank", "[ranks][nightly]") {
  std::vector<Setting> settings;
  for (const Layout& l : axes())
    for (const Savings& s : {Savings{true, false, false}, Savings{false, true, false}, Savings{false, false, true}})
      settings.push_back({l, s});
  check_settings(settings, others());
}

TEST_CASE("mpirun with random savings on random meshes trains like one rank", "[ranks][nightly]") {
  std::mt19937 random(24);
  const auto draw = [&](size_t n) { return static_cast<size_t>(random()) % n; };
  std::vector<Setting> settings;
  while (settings.size() < 20) {
    Setting s{piped(2, std::vector<std::string>{"1f1b", "zb-v", "bitpipe", "zb-h1", "gpipe"}[draw(5)]),
              {draw(2) == 0, draw(2) == 0, draw(2) == 0}};
    s.layout.tensor = 1 + static_cast<int>(draw(2));
    s.layout.sequence = 1 + static_cast<int>(draw(2));
    s.layout.data = 1 + static_cast<int>(draw(2));
    s.layout.pipeline = 1 + static_cast<int>(draw(2));
    s.layout.zero = s.layout.data * s.layout.sequence > 1 ? static_cast<int>(draw(4)) : 0;
    s.layout.megatron = s.layout.tensor > 1 && draw(2) == 0;
    const int axes = (s.layout.tensor > 1) + (s.layout.sequence > 1) + (s.layout.data > 1) + (s.layout.pipeline > 1);
    const bool saves = s.savings.chunks || s.savings.tiles || s.savings.offload;
    if (axes >= 2 && s.layout.ranks() <= 8 && saves) settings.push_back(s);
  }
  check_settings(settings, others());
}
