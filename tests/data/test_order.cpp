// The building blocks of data order: stateless permutations and mixtures.
#include <catch2/catch.hpp>
#include <limits>
#include <numeric>
#include <set>

#include "base/error.h"
#include "data/sampling/mixture.h"
#include "data/sampling/permutation.h"

using namespace fp;

namespace {

const Philox::Key kKey = Philox::key(7, Purpose::data_order);

std::vector<uint64_t> order(uint64_t n, uint32_t stream, uint64_t epoch) {
  const Permutation permutation(n, kKey, stream, epoch);
  std::vector<uint64_t> result(n);
  for (uint64_t i = 0; i < n; ++i) result[i] = permutation(i);
  return result;
}

}  // namespace

TEST_CASE("a permutation maps to every index exactly once") {
  for (const uint64_t n : {1, 2, 3, 4, 5, 7, 8, 9, 31, 64, 100, 1000, 4097}) {
    const auto places = order(n, 0, 3);
    CHECK(std::set<uint64_t>(places.begin(), places.end()).size() == n);
    CHECK(*std::max_element(places.begin(), places.end()) == n - 1);
  }
}

TEST_CASE("permutations of other epochs, streams and keys are unrelated") {
  const auto base = order(1000, 0, 0);
  const auto in_common = [&](const std::vector<uint64_t>& other) {
    int same = 0;
    for (size_t i = 0; i < base.size(); ++i) same += base[i] == other[i] ? 1 : 0;
    return same;
  };
  CHECK(order(1000, 0, 0) == base);
  CHECK(in_common(order(1000, 0, 1)) < 10);  // 1 on average
  CHECK(in_common(order(1000, 1, 0)) < 10);
  CHECK(in_common(order(1000, 0, uint64_t{1} << 32)) < 10);
  std::vector<uint64_t> identity(1000);
  std::iota(identity.begin(), identity.end(), 0);
  CHECK(in_common(identity) < 10);
}

TEST_CASE("a permutation spreads neighbouring indices over the whole range") {
  // For a random permutation the mean distance between the images of neighbours is n/3.
  const auto places = order(5000, 2, 9);
  double distance = 0;
  for (size_t i = 0; i + 1 < places.size(); ++i)
    distance += std::abs(static_cast<double>(places[i]) - static_cast<double>(places[i + 1]));
  CHECK(distance / 4999 == Approx(5000.0 / 3).epsilon(0.05));
}

TEST_CASE("permutations of huge ranges stay in range and have no collisions") {
  const uint64_t n = (uint64_t{1} << 40) + 12345;
  const Permutation permutation(n, kKey, 5, 11);
  std::set<uint64_t> seen;
  for (uint64_t i = 0; i < 1000; ++i) {
    const uint64_t place = permutation(i * (n / 1000));
    CHECK(place < n);
    CHECK(seen.insert(place).second);
  }
}

TEST_CASE("a mixture numbers each dataset's samples without gaps") {
  const std::vector<double> weights = {0.5, 3, 0.01, 1, 1.49};
  const Mixture mixture(weights);
  std::vector<uint64_t> next(weights.size(), 0);
  for (uint64_t g = 0; g < 20000; ++g) {
    const auto item = mixture.at(g);
    REQUIRE(item.index == next[static_cast<size_t>(item.dataset)]);
    ++next[static_cast<size_t>(item.dataset)];
  }
}

TEST_CASE("a mixture's counts follow the weights within the bound") {
  for (const std::vector<double>& weights :
       {std::vector<double>{1}, {1, 1}, {0.7, 0.3}, {5, 1, 1}, {0.001, 0.999}, {1, 2, 3, 4, 5, 6, 7}}) {
    const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    const double bound = std::ceil(std::log2(static_cast<double>(weights.size()))) / 2 + 1;
    const Mixture mixture(weights);
    std::vector<double> counts(weights.size(), 0);
    double worst = 0;
    for (uint64_t g = 0; g < 5000; ++g) {
      ++counts[static_cast<size_t>(mixture.at(g).dataset)];
      for (size_t d = 0; d < weights.size(); ++d)
        worst = std::max(worst, std::abs(counts[d] - static_cast<double>(g + 1) * weights[d] / total));
    }
    CHECK(worst <= bound);
  }
}

TEST_CASE("a mixture's items at large indices need no scan") {
  const std::vector<double> weights = {1, 2};
  const Mixture mixture(weights);
  const uint64_t g = uint64_t{1} << 60;
  const auto item = mixture.at(g);
  const double share = item.dataset == 0 ? 1.0 / 3 : 2.0 / 3;
  CHECK(static_cast<double>(item.index) == Approx(static_cast<double>(g) * share));
}

TEST_CASE("invalid mixture weights are refused") {
  for (const double w : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    const std::vector<double> weights = {1, w};
    CHECK_THROWS_AS(Mixture(weights), ConfigError);
  }
  const std::vector<double> huge(3, std::numeric_limits<double>::max());
  CHECK_THROWS_AS(Mixture(huge), ConfigError);
}
