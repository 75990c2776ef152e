#include <catch2/catch.hpp>

#include "launch/message.h"
#include "launch/stall.h"

using namespace fp;
using Catch::Contains;

namespace {

const PhaseTimeouts timeouts = {{"step", 10}, {"save", 100}, {"evaluation", 0}};

// A rank that has waited in all_reduce #5 of data for `still_s` seconds.
RankState waiting(int rank, double still_s, const std::string& phase = "step") {
  return {rank, "h", 100 + rank, {phase, 7, true, {"data", CommKind::all_reduce, 5}, 9}, still_s, false};
}
RankState working(int rank, double still_s, const std::string& phase = "step") {
  RankState r = waiting(rank, still_s, phase);
  r.activity.waiting = false;
  return r;
}
RankState silent(RankState r) {
  r.silent = true;
  return r;
}
RankState elsewhere(int rank, CommRecord::Entry entry, int64_t step = 7) {
  RankState r = waiting(rank, 11);
  r.activity.entry = std::move(entry);
  r.activity.step = step;
  return r;
}

bool stalled(const std::vector<RankState>& ranks) { return is_stalled(ranks, timeouts); }
std::vector<int> odd(const std::vector<RankState>& ranks) { return odd_ones_out(ranks); }

// A rank whose host thread works, or blocks in a copy, with calls issued to and finished by its device in `lanes`.
RankState on_device(int rank, std::vector<CommRecord::Lane> lanes, double still_s = 11) {
  RankState r = working(rank, still_s);
  r.activity.lanes = std::move(lanes);
  return r;
}

}  // namespace

TEST_CASE("a run is stalled once every rank has exceeded the timeout of its phase") {
  CHECK_FALSE(stalled({}));
  CHECK_FALSE(stalled({waiting(0, 11), waiting(1, 9)}));
  CHECK(stalled({waiting(0, 11), waiting(1, 11)}));
  CHECK(stalled({working(0, 11), working(1, 11)}));
  CHECK(stalled({working(0, 11)}));
  CHECK_FALSE(stalled({waiting(0, 50), waiting(1, 50, "save")}));
  CHECK(stalled({waiting(0, 101), waiting(1, 101, "save")}));
  CHECK_FALSE(stalled({waiting(0, 1e6), waiting(1, 1e6, "evaluation")}));
  CHECK_FALSE(stalled({waiting(0, 1e6), waiting(1, 1e6, "a phase that is not in the table")}));
}

TEST_CASE("a rank that works alone is a stall only if it makes no progress") {
  CHECK_FALSE(stalled({waiting(0, 500), working(1, 1), waiting(2, 500)}));
  CHECK_FALSE(stalled({waiting(0, 500), working(1, 50, "save")}));
  CHECK_FALSE(stalled({waiting(0, 500), working(1, 1e6, "evaluation")}));
  CHECK(stalled({waiting(0, 11), working(1, 11), working(2, 1)}));
  CHECK_FALSE(stalled({waiting(0, 9), working(1, 11), working(2, 1)}));
  CHECK_FALSE(stalled({waiting(0, 11), waiting(1, 11), working(2, 1)}));
}

TEST_CASE("a silent rank stalls the run once those that wait for it exceed their timeouts") {
  CHECK(stalled({waiting(0, 11), silent(working(1, 11, "evaluation"))}));
  CHECK(stalled({waiting(0, 11), silent(waiting(1, 11)), working(2, 1)}));
  CHECK_FALSE(stalled({waiting(0, 9), silent(working(1, 11)), working(2, 1)}));
  CHECK_FALSE(stalled({working(0, 1), silent(waiting(1, 1e6))}));
  CHECK_FALSE(stalled({silent(working(1, 9)), silent(working(2, 9))}));
  CHECK(stalled({silent(working(1, 9)), silent(working(2, 11))}));
}

TEST_CASE("outliers are the ranks most likely to cause the stall") {
  CHECK(odd({working(0, 11)}).empty());
  CHECK(odd({waiting(0, 11), waiting(1, 11)}).empty());
  CHECK(odd({working(0, 11), working(1, 11)}).empty());
  CHECK(odd({waiting(0, 11), working(1, 11), waiting(2, 11)}) == std::vector{1});
  CHECK(odd({waiting(0, 11), working(1, 11), silent(waiting(2, 11))}) == std::vector{2});
  const CommRecord::Entry gather{"data", CommKind::all_gather, 5}, behind{"data", CommKind::all_reduce, 4},
      other{"tensor", CommKind::all_reduce, 5};
  for (const auto& entry : {gather, behind, other})
    CHECK(odd({elsewhere(0, entry), waiting(1, 11), waiting(2, 11)}) == std::vector{0});
  // Without a majority, the one at the earliest step, if there is one.
  CHECK(odd({elsewhere(0, gather), waiting(1, 11)}).empty());
  CHECK(odd({elsewhere(0, gather), elsewhere(1, behind, 6)}) == std::vector{1});
}

TEST_CASE("the stall report lists the activity of all ranks with identical ranks on one line") {
  std::vector<RankState> ranks;
  for (int r = 0; r < 8; ++r) ranks.push_back(r == 3 ? working(r, 12) : waiting(r, 11));
  const std::string text = describe_stall(ranks);
  CHECK_THAT(text, Contains("no rank has made progress for 11.0 s"));
  CHECK_THAT(text, Contains("Suspect: rank 3 (host h, pid 103): is not in the communication that others wait in."));
  CHECK_THAT(text, Contains("\n  ranks 0-2,4-7: step 7, phase step, waiting in all_reduce of data #5\n"));
  CHECK_THAT(text, Contains("\n  rank 3: step 7, phase step, working since all_reduce of data #5"));
  ranks[3] = silent(waiting(3, 12));
  CHECK_THAT(describe_stall(ranks), Contains("rank 3: step 7, phase step, waiting in all_reduce of data #5, silent"));
  ranks[3] = waiting(3, 12);
  CHECK_THAT(describe_stall(ranks), Contains("All ranks wait alike"));
}

TEST_CASE("message fields can contain any bytes") {
  const PeerMessage odd_text{"fail", {"", "tab\tline\nback\\slash\\t", "", "end"}};
  CHECK(encode(odd_text).find('\n') == std::string::npos);
  CHECK(decode(encode(odd_text)) == odd_text);
  CHECK(decode(encode({"bye", {}})) == PeerMessage{"bye", {}});
  const CommRecord::Activity a{"a phase", 1234567890123, true, {"data", CommKind::host, 42}, 99};
  const CommRecord::Activity b = activity_of(decode(encode(beat_of(a))));
  CHECK(std::tuple(b.phase, b.step, b.waiting, b.entry.group, b.entry.kind, b.entry.sequence, b.progress) ==
        std::tuple(a.phase, a.step, a.waiting, a.entry.group, a.entry.kind, a.entry.sequence, a.progress));
  CHECK(activity_of(decode("beat\tx\ty\tz\tg\t99\t\t")).entry.kind == CommKind::host);  // nonsense does not crash
}

TEST_CASE("a rank that has not issued a call for which devices wait is suspect") {
  // Rank 2 never issues call 8; the other ranks' hosts block in a copy after it, and one has even issued call 9.
  const std::vector<RankState> ranks = {on_device(0, {{"data@0", 8, 7}}), on_device(1, {{"data@0", 9, 7}}),
                                        on_device(2, {{"data@0", 7, 7}}), on_device(3, {{"data@0", 8, 7}})};
  CHECK(stalled(ranks));
  CHECK(odd(ranks) == std::vector<int>{2});
  const std::string text = describe_stall(ranks);
  CHECK_THAT(text, Contains("Suspect: rank 2 (host h, pid 102): has not issued the call that others wait in"));
  CHECK_THAT(text, Contains("its device in call 8 of 9 issued to data@0"));
}

TEST_CASE("a rank that works alone while devices wait for it is a stall only when it is overdue too") {
  const auto with_still = [](double still_s) {
    return std::vector<RankState>{on_device(0, {{"data@0", 8, 7}}), on_device(1, {{"data@0", 7, 7}}, still_s),
                                  on_device(2, {{"other@2", 4, 4}}, 1)};
  };
  CHECK_FALSE(stalled(with_still(9)));
  CHECK(stalled(with_still(11)));
}

TEST_CASE("in a chain of waiting ranks the one that waits for nobody is suspect") {
  // Rank 1 waits for rank 2 in the pipeline, and so has not reached the all-reduce that rank 0 is in.
  const std::vector<RankState> ranks = {on_device(0, {{"data@0", 8, 7}}),
                                        on_device(1, {{"data@0", 7, 7}, {"stages@1", 3, 2}}),
                                        on_device(2, {{"stages@1", 2, 2}})};
  CHECK(odd(ranks) == std::vector<int>{2});
}

TEST_CASE("no rank is suspect if all devices wait for the same call") {
  CHECK(odd({on_device(0, {{"data@0", 8, 7}}), on_device(1, {{"data@0", 8, 7}})}).empty());
  CHECK(odd({on_device(0, {{"data@0", 8, 7}}), on_device(1, {{"data@1", 5, 4}})}).empty());
  CHECK_THAT(describe_stall(std::vector{on_device(0, {{"data@0", 8, 7}}), on_device(1, {{"data@0", 8, 7}})}),
             Contains("All ranks wait alike"));
}

TEST_CASE("a heartbeat carries the state of the device") {
  const CommRecord::Activity a = on_device(0, {{"data@0", 8, 7}, {"stages@0-1 up", 123456789012, 5}}).activity;
  CHECK(activity_of(decode(encode(beat_of(a)))).lanes == a.lanes);
  CHECK(activity_of({"beat", {"step", "1", "0", "g", "0", "2", "3", "half a lane", "4"}}).lanes.empty());
}
