// Schedules of updates on device and host: the division of the subgroups, what the verifier accepts and refuses.
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <random>

#include "base/error.h"
#include "optim/update_schedule.h"

using namespace fp;

namespace {

std::vector<int64_t> random_sizes(std::mt19937& random, size_t n) {
  std::vector<int64_t> sizes(n);
  for (int64_t& s : sizes) s = 1 + static_cast<int64_t>(random() % 1000);
  return sizes;
}

}  // namespace

TEST_CASE("a share of 1/k is the stride k, and shares above a half leave strides to the host", "[optim]") {
  for (const size_t n : {1, 2, 7, 12, 31}) {
    const std::vector<int64_t> sizes(n, 100);
    for (const size_t k : {1, 2, 3, 4, 6, 8, 10}) {
      const auto places = divide_subgroups(sizes, 1.0 / static_cast<double>(k));
      for (size_t i = 0; i < n; ++i) CHECK((places[i] == UpdatePlace::device) == ((i + 1) % k == 0));
    }
    for (const size_t k : {2, 3, 5}) {
      const auto places = divide_subgroups(sizes, 1 - 1.0 / static_cast<double>(k));
      CHECK(std::ranges::count(places, UpdatePlace::host) == static_cast<int64_t>((n + k - 1) / k));
    }
    CHECK(std::ranges::count(divide_subgroups(sizes, 0), UpdatePlace::host) == static_cast<int64_t>(n));
  }
}

TEST_CASE("every sequence of unequal subgroups has its share on the device, up to the largest subgroup", "[optim]") {
  std::mt19937 random(3);
  for (int trial = 0; trial < 50; ++trial) {
    const std::vector<int64_t> sizes = random_sizes(random, 1 + random() % 40);
    const double share = static_cast<double>(random() % 1001) / 1000;
    const auto places = divide_subgroups(sizes, share);
    const auto largest = static_cast<double>(*std::ranges::max_element(sizes));
    for (size_t from = 0; from < sizes.size(); ++from) {
      double all = 0, on_device = 0;
      for (size_t i = from; i < sizes.size(); ++i) {
        all += static_cast<double>(sizes[i]);
        if (places[i] == UpdatePlace::device) on_device += static_cast<double>(sizes[i]);
        REQUIRE(std::abs(on_device - share * all) <= largest * 1.001);
      }
    }
  }
}

TEST_CASE("the verifier accepts every schedule that is generated", "[optim]") {
  std::mt19937 random(4);
  verify(interleaved_schedule({}));
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<UpdatePlace> places(1 + random() % 20);
    for (UpdatePlace& p : places) p = random() % 2 == 0 ? UpdatePlace::device : UpdatePlace::host;
    const UpdateSchedule s = interleaved_schedule(places, {.device = 1 + random() % 4, .host = 2 + random() % 4});
    CHECK_NOTHROW(verify(s));
    CHECK(s.actions.size() == 3 * places.size());
    CHECK_NOTHROW(verify(synchronous_schedule(places.size())));
  }
}

TEST_CASE("the verifier refuses schedules with an action left out, doubled, moved, or in another buffer", "[optim]") {
  using Place = UpdatePlace;
  const std::vector<Place> places = {Place::host, Place::device, Place::host,   Place::host, Place::device,
                                     Place::host, Place::host,   Place::device, Place::host};
  for (const UpdateSchedule& whole :
       {interleaved_schedule(places), interleaved_schedule(places, {1, 2}), synchronous_schedule(places.size())}) {
    const size_t n = whole.actions.size();
    for (size_t i = 0; i < n; ++i) {
      UpdateSchedule s = whole;
      s.actions.erase(s.actions.begin() + static_cast<std::ptrdiff_t>(i));
      CHECK_THROWS_AS(verify(s), InternalError);
      s = whole;
      s.actions.push_back(s.actions[i]);
      CHECK_THROWS_AS(verify(s), InternalError);
      for (const size_t buffer : {whole.actions[i].buffer + 1, size_t{100}}) {
        s = whole;
        s.actions[i].buffer = buffer;
        CHECK_THROWS_AS(verify(s), InternalError);
      }
      s = whole;
      s.actions[i].subgroup = places.size();
      CHECK_THROWS_AS(verify(s), InternalError);
      s = whole;
      const auto first = std::ranges::find(s.actions, whole.actions[i].subgroup, &UpdateAction::subgroup);
      if (*first == whole.actions[i]) continue;
      std::swap(s.actions[i], *first);
      CHECK_THROWS_AS(verify(s), InternalError);
    }
  }
  UpdateSchedule s = interleaved_schedule(places);
  s.places[1] = Place::host;
  CHECK_THROWS_WITH(verify(s), Catch::Contains("fetch of subgroup 1") && Catch::Contains("expected send gradient"));
}
