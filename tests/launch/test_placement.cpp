#include <unistd.h>

#include <catch2/catch.hpp>

#include "base/error.h"
#include "launch/placement.h"

using namespace fp;
using Catch::Contains;

namespace {

std::vector<RankPlace> eight_on_two_hosts() {
  std::vector<RankPlace> places;
  for (int r = 0; r < 8; ++r) {
    const std::string gpu = "GPU-" + std::to_string(r % 4);
    places.push_back({r < 4 ? "node1" : "node2", 100 + r, "NVIDIA H100", gpu, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {}});
  }
  return places;
}

}  // namespace

TEST_CASE("a rank's place survives a round trip through text") {
  const RankPlace odd{"a host", 7, "tab\tline\nback\\slash", "", {}, "no driver", 3};
  CHECK(place_from_text(to_text(odd)) == odd);
  const RankPlace here = place_of_this_process("cpu", "");
  CHECK(here.host == host_name());
  CHECK(here.pid == ::getpid());
  CHECK_FALSE(here.cores.empty());
  CHECK(place_from_text(to_text(here)) == here);
  CHECK_THROWS_AS(place_from_text("beat\t1"), InternalError);
}

TEST_CASE("two ranks on one GPU are refused unless allowed") {
  std::vector<RankPlace> places = eight_on_two_hosts();
  CHECK_NOTHROW(check_gpu_sharing(places, false));
  places[6].device_id = "GPU-0";
  CHECK_THROWS_WITH(check_gpu_sharing(places, false), Contains("ranks 4 and 6 on host node2") &&
                                                          Contains("NVIDIA H100 (GPU-0)") &&
                                                          Contains("`parallel.allow_gpu_sharing: true`"));
  CHECK_THROWS_AS(check_gpu_sharing(places, false), ConfigError);
  CHECK_NOTHROW(check_gpu_sharing(places, true));
  for (RankPlace& p : places) p.device_id.clear();  // CPUs
  CHECK_NOTHROW(check_gpu_sharing(places, false));
}

TEST_CASE("a missing GPU is a node failure if other ranks have theirs and a configuration error if none has") {
  std::vector<RankPlace> places = eight_on_two_hosts();
  CHECK_FALSE(missing_devices(places, false));
  for (int r = 4; r < 8; ++r) places[r].device_id.clear(), places[r].missing = "no NVIDIA driver";
  const auto dead = missing_devices(places, false);
  REQUIRE(dead);
  CHECK(dead->ranks == std::vector<int>{4, 5, 6, 7});
  CHECK_THAT(dead->text,
             Contains("ranks 4-7") && Contains("host node2 has 0 of the 4") && Contains("no NVIDIA driver"));
  CHECK(missing_devices(places, true));
  for (RankPlace& p : places) p.device_id.clear(), p.missing = "no NVIDIA driver";
  CHECK_FALSE(missing_devices(places, false));
  CHECK_THROWS_WITH(check_gpu_sharing(places, false), "no NVIDIA driver");
  CHECK_THROWS_AS(check_gpu_sharing(places, true), ConfigError);
  for (RankPlace& p : places) p.missing.clear();  // CPUs
  CHECK_FALSE(missing_devices(places, false));
}

TEST_CASE("a node that lost one of its GPUs has failed if other nodes have one for each rank") {
  std::vector<RankPlace> places = eight_on_two_hosts();
  places[7].device_id = "GPU-0";  // as open_device() falls back to the first
  const auto one_less = missing_devices(places, false);
  REQUIRE(one_less);
  CHECK(one_less->ranks == std::vector<int>{4, 5, 6, 7});
  CHECK_THAT(one_less->text, Contains("host node2 has 3 of the 4"));
  CHECK_FALSE(missing_devices(places, true));
  places[3].device_id = "GPU-0";  // on every node: more ranks than GPUs
  CHECK_FALSE(missing_devices(places, false));
  CHECK_THROWS_AS(check_gpu_sharing(places, false), ConfigError);
}

TEST_CASE("unbound ranks share the cores of their host and bound ranks use their own") {
  std::vector<RankPlace> places = eight_on_two_hosts();
  CHECK(threads_of(places, 0) == 2);  // 10 cores, 4 ranks
  CHECK(threads_of(places, 7) == 2);
  places[1].cores = {0, 1, 2};
  CHECK(threads_of(places, 1) == 3);
  CHECK(threads_of(places, 0) == 3);
  CHECK(threads_of(places, 7) == 2);
  places[2].cores = places[3].cores = {5};
  CHECK(threads_of(places, 2) == 1);
  places[3].cores = {};
  CHECK(threads_of(places, 3) == 1);
}

TEST_CASE("the ranks of a host have no more threads together than its control group grants cores") {
  std::vector<RankPlace> places = eight_on_two_hosts();
  for (RankPlace& p : places) p.core_quota = 4;
  CHECK(threads_of(places, 0) == 1);
  places.resize(6);
  CHECK(threads_of(places, 0) == 1);
  CHECK(threads_of(places, 5) == 2);
  places[5].cores = {8};
  CHECK(threads_of(places, 5) == 1);
  CHECK(threads_of(places, 4) == 2);
  places[4].core_quota = 0;  // in another container
  CHECK(threads_of(places, 4) == 10);
  places[4].core_quota = 3;
  CHECK(threads_of(places, 4) == 3);
  CHECK(threads_of(places, 5) == 1);
}

TEST_CASE("the placement table has one line per rank") {
  std::vector<RankPlace> places = eight_on_two_hosts();
  places.resize(2);
  places[1] = {"a-longer-name", 1, "cpu", "", {0, 2, 3}};
  CHECK(placement_table(places) ==
        "rank  host           device       cores  threads\n"
        "   0  node1          NVIDIA H100  0-9         10\n"
        "   1  a-longer-name  cpu          0,2-3        3");
}

TEST_CASE("the placement table of many ranks merges the identical ranks of a host") {
  std::vector<RankPlace> places;
  for (int rank = 0; rank < 80; ++rank) places.push_back({rank < 40 ? "a" : "b", 1, "cpu", "", {rank % 40}});
  places[79].cores = {100, 101};
  CHECK(placement_table(places) ==
        "rank   host  device  cores    threads\n"
        " 0-39  a     cpu     0-39           1\n"
        "40-78  b     cpu     0-38           1\n"
        "   79  b     cpu     100-101        2");
}

TEST_CASE("numbers are formatted as ranges") {
  CHECK(ranges_text({}) == "");
  CHECK(ranges_text({4}) == "4");
  CHECK(ranges_text({0, 1, 2, 4, 6, 7}) == "0-2,4,6-7");
}
