// The same training on every mesh, over MPI as a person runs it: losses and final parameters of any layout are those of
// one rank, a run repeats bit for bit, and a run goes on on another mesh than it began.
#include <catch2/catch.hpp>

#include "ranks/job.h"
#include "ranks/outcome.h"

using namespace fp;
using namespace fp::testing;

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

}  // namespace

TEST_CASE("mpirun trains like one rank on any mesh", "[ranks]") {
  const RanksWorkspace w;
  const std::string family = GENERATE("gpt", "llama", "phi3");
  const auto spec = w.spec(family);
  run_well(w.train(spec, "one", {}, kMeshRun));
  int number = 0;
  for (const Layout& layout : mesh_layouts()) {
    INFO(family << ": " << layout.text());
    const std::string name = fmt::format("many-{}", number++);
    run_well(w.train(spec, name, layout, kMeshRun));
    check_like_one(w, name, kMeshSteps);
    if (number % 3 == 0) check_repeats(w, spec, name, layout, kMeshRun);  // of 2, 4 and 8 ranks
  }
}

TEST_CASE("a run goes on on another mesh", "[ranks]") {
  const RanksWorkspace w;
  const auto spec = w.spec("llama");
  run_well(w.train(spec, "one", {}, kMeshRun));
  run_well(w.train(spec, "saved", {2, 2, 2, 3}, kMeshRun));
  const std::string saved = (w.run_directory("saved") / "checkpoints" / "step-00000010").string();
  for (const Layout& layout :
       {Layout{}, {1, 1, 1, 0, false, "full"}, {2, 1, 1, 0, true}, {1, 1, 2, 2}, {1, 2, 2, 1}, {4, 1, 1, 3}}) {
    INFO(layout.text());
    const std::string name = "resumed-" + layout.text();
    std::vector<std::string> more = kMeshRun;
    more.insert(more.end(), {"--resume", saved});
    run_well(w.train(spec, name, layout, more));
    CHECK(history(w.run_directory(name)).begin()->first == 11);
    check_like_one(w, name, kMeshSteps);
  }
}
