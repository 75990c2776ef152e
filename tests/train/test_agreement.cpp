// What ranks say that are not alike; how they come to be unlike under mpirun is in tests/ranks.
#include <catch2/catch.hpp>

#include "comm/backends.h"
#include "train/agreement.h"
#include "train/together.h"

using namespace fp;

namespace {

// The message that all of so many ranks get, of which each has these facts.
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

TEST_CASE("ranks that have the same facts go on") {
  CHECK(refusal(5, [](int) { return Facts{{"a", "1"}, {"b\xff", "no letter: \xfe"}}; }).empty());
  CHECK(refusal(1, [](int) { return Facts{}; }).empty());
}

TEST_CASE("each value is named with its ranks") {
  const auto facts = [](int rank) { return Facts{{"same", "x"}, {"key", rank % 2 == 0 ? "even" : "odd"}}; };
  CHECK_THAT(refusal(6, facts), Catch::Contains("not alike: key is even on rank 0 and odd on ranks 1,3,5. "));
  const auto own = [](int rank) { return Facts{{"key", std::to_string(rank)}}; };
  CHECK_THAT(refusal(3, own), Catch::Contains("key is 0 on rank 0 and 1 on rank 1 and 2 on rank 2. "));
}

TEST_CASE("the first keys that differ are named, those of rank 0 first, and no long value in full") {
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

TEST_CASE("what all ranks meet is thrown as it is, and what one meets as unlike the others") {
  const auto start = [](const std::function<std::string(int)>& outcome) {
    std::string message;
    try {
      run_thread_ranks(3, [&](World& world) {
        require_same_start(*world.group("all", {0, 1, 2}), outcome(world.rank()), {});
      });
    } catch (const ConfigError& e) {
      message = e.what();
    }
    return message;
  };
  CHECK(start([](int) { return "0 "; }).empty());
  CHECK(start([](int) { return "2 a.yaml: no such file"; }) == "a.yaml: no such file");
  CHECK_THAT(start([](int rank) { return rank == 2 ? "2 a.yaml: no such file" : "0 "; }),
             Catch::Contains("the run spec is usable on rank 0 and not usable (host ") &&
                 Catch::Contains("): a.yaml: no such file on rank 2. "));
}
