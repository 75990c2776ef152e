// Golden numbers: a refactor must not move the training of any family. tests/golden/ref_fp32.txt holds the losses of
// five steps on the reference backend; regenerate it only when a change of numbers is meant (set FPTRAIN_WRITE_GOLDEN).
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "exec/rig.h"

using namespace fp;
using namespace fp::test;

namespace {

std::string losses(const std::string& name) {
  ModelSection m = tiny_model(name);
  m.dropout_embedding = m.dropout_attention = m.dropout_residual = m.dropout_ffn = 0.1;
  Rig rig(make_ref_ops(), m, DType::f32, Recompute::none, {1e-3, 5});
  std::string line = name;
  for (int step = 1; step <= 5; ++step) {
    const std::vector<Batch> batches = {random_batch(m, 3, 13, static_cast<uint64_t>(step), true)};
    line += fmt::format(" {:.9g}", rig.executor.accumulate(batches).mean());
    rig.executor.update(OptimizerSection{}, 3e-3, step, rig.executor.gradient_norm().norm);
  }
  return line;
}

}  // namespace

TEST_CASE("losses of every family equal the golden numbers", "[exec]") {
  const std::string file = FP_SOURCE_DIR "/tests/golden/ref_fp32.txt";
  if (std::getenv("FPTRAIN_WRITE_GOLDEN") != nullptr) {
    std::ofstream out(file);
    for (const std::string& name : tiny_names()) out << losses(name) << "\n";
  }
  std::ifstream in(file);
  size_t families = 0;
  for (std::string line; std::getline(in, line); ++families) {
    std::istringstream golden(line);
    std::string name, again;
    golden >> name;
    std::istringstream now(losses(name));
    now >> again;
    CAPTURE(name);
    for (double expected = 0, value = 0; golden >> expected;) {
      REQUIRE(now >> value);
      // Another libm or compiler may move the last bits of the step, and five steps amplify that.
      CHECK(value == Approx(expected).epsilon(1e-5));
    }
  }
  CHECK(families == tiny_names().size());
}
