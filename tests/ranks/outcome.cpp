#include "ranks/outcome.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "checkpoint/fragment_reader.h"
#include "checkpoint/inspect.h"

namespace fp::test {
namespace {

// Returns the largest difference of the parameters of two checkpoints, relative to the largest value of each tensor.
double worst_parameter(const Checkpoint& a, const Checkpoint& b) {
  double worst = 0;
  FragmentReader of_a(a), of_b(b);
  for (const CheckpointParam& p : a.manifest().parameters) {
    const int64_t elements = p.shape.elements();
    const auto x = first_elements(of_a, p.name, "param", elements);
    const auto y = first_elements(of_b, p.name, "param", elements);
    double largest = 0, difference = 0;
    for (int64_t i = 0; i < elements; ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(x[i])));
      const double d = std::abs(static_cast<double>(x[i]) - y[i]);
      difference = std::isfinite(d) ? std::max(difference, d) : HUGE_VAL;
    }
    UNSCOPED_INFO(p.name << ": " << difference / largest);
    worst = std::max(worst, difference / largest);
  }
  return worst;
}

}  // namespace

void check_like_one(const RanksWorkspace& w, const std::string& name, int steps) {
  constexpr double kTolerance = 1e-5;
  const auto last = [&](const std::string& run) {
    return Checkpoint::open(w.run_directory(run) / "checkpoints" / fmt::format("step-{:08}", steps));
  };
  CHECK(worst_loss(w.run_directory("one"), w.run_directory(name), steps) < kTolerance);
  CHECK(worst_parameter(last("one"), last(name)) < kTolerance);
}

void check_repeats(const RanksWorkspace& w, const std::filesystem::path& spec, const std::string& name,
                   const Layout& layout, const std::vector<std::string>& more) {
  const auto first = w.run_directory(name), again = w.run_directory(name + "-again");
  expect_success(w.train(spec, name + "-again", layout, more));
  expect_success(fptrain({"checkpoint", "diff", first.string(), again.string()}));
  CHECK(history(first) == history(again));
}

void check_layouts(const std::string& family, const std::vector<Layout>& layouts, size_t first, size_t stride,
                   const std::vector<std::string>& more, int steps) {
  const RanksWorkspace w;
  const auto spec = w.spec(family);
  expect_success(w.train(spec, "one", {}, more));
  for (size_t i = first; i < layouts.size(); i += stride) {
    INFO(family << ": " << layouts[i].text());
    const std::string name = fmt::format("many-{}", i);
    expect_success(w.train(spec, name, layouts[i], more));
    check_like_one(w, name, steps);
    if (i % 3 == 2) check_repeats(w, spec, name, layouts[i], more);
  }
}

}  // namespace fp::test
