// Messages about ranks that differ. tests/ranks has the ways in which they come to differ under mpirun.
#include <catch2/catch.hpp>

#include "comm/backends.h"
#include "train/agreement.h"
#include "train/coordination.h"

using namespace fp;

namespace {

// Returns the message that all of `ranks` ranks get, each with its own facts.
std::string refusal(int ranks, const std::function<Facts(int rank)>& facts) {
  std::vector<std::string> messages(static_cast<size_t>(ranks));
  run_thread_ranks(ranks, [&](World& world) {
    std::vector<int> all;
    for (int r = 0; r < world.size(); ++r) all.push_back(r);
    const auto group = world.group("all", all);
    try {
      require_same_facts(*group, facts(world.rank()));
    } catch (const ConfigError& e) {
      messages[static_cast<size_t>(world.rank())] = e.what();
    }
    group->barrier();
  });
  for (const std::string& m : messages) CHECK(m == messages[0]);
  return messages[0];
}

}  // namespace

TEST_CASE("ranks with the same facts are accepted") {
  CHECK(refusal(5, [](int) { return Facts{{"a", "1"}, {"b\xff", "no letter: \xfe"}}; }).empty());
  CHECK(refusal(1, [](int) { return Facts{}; }).empty());
}

TEST_CASE("the error names each value with its ranks") {
  const auto facts = [](int rank) { return Facts{{"same", "x"}, {"key", rank % 2 == 0 ? "even" : "odd"}}; };
  CHECK_THAT(refusal(6, facts), Catch::Contains("run differ: key is even on rank 0 and odd on ranks 1,3,5. "));
  const auto own = [](int rank) { return Facts{{"key", std::to_string(rank)}}; };
  CHECK_THAT(refusal(3, own), Catch::Contains("key is 0 on rank 0 and 1 on rank 1 and 2 on rank 2. "));
}

TEST_CASE("the error names the first differing keys, rank 0's first, and shortens long values") {
  const auto facts = [](int rank) {
    Facts f;
    if (rank == 1) f.emplace_back("more", "1");
    for (const char* key : {"a", "b", "c", "d"}) f.emplace_back(key, std::string(rank == 0 ? 1 : 1000, 'v'));
    return f;
  };
  const std::string text = refusal(2, facts);
  CHECK_THAT(text,
             Catch::Contains("a is v on rank 0 and vvv") && Catch::Contains("; b is") && Catch::Contains("; c is"));
  CHECK_THAT(text, !Catch::Contains("d is") && !Catch::Contains("more is"));
  CHECK(text.size() < 1500);
  const auto one_more = [](int rank) { return rank == 0 ? Facts{{"a", "1"}} : Facts{{"a", "1"}, {"more", "2"}}; };
  CHECK_THAT(refusal(2, one_more), Catch::Contains("more is absent on rank 0 and 2 on rank 1"));
}

TEST_CASE("an error of all ranks is thrown unchanged, one of a single rank as a difference") {
  const auto start = [](const std::function<RankResult(int)>& read) {
    std::string message;
    try {
      run_thread_ranks(3, [&](World& world) {
        require_same_start(*world.group("all", {0, 1, 2}), read(world.rank()), {});
      });
    } catch (const ConfigError& e) {
      message = e.what();
    }
    return message;
  };
  const RankResult failed{ExitCode::bad_config, false, 0, "a.yaml: no such file"};
  CHECK(start([](int) { return RankResult(); }).empty());
  CHECK(start([&](int) { return failed; }) == "a.yaml: no such file");
  CHECK_THAT(start([&](int rank) { return rank == 2 ? failed : RankResult(); }),
             Catch::Contains("the run spec is usable on rank 0 and not usable (host ") &&
                 Catch::Contains("): a.yaml: no such file on rank 2. "));
}
