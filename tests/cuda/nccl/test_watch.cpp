// NcclWatch and LaneProgress with marks that the test sets; without a GPU and without NCCL.
#include <atomic>
#include <catch2/catch.hpp>
#include <memory>

#include "cuda/comm/nccl_watch.h"

namespace fp::test {
namespace {

using namespace fp;
using namespace fp::cuda;
using Lanes = std::vector<CommRecord::Lane>;

struct TestMark final : StreamMark {
  explicit TestMark(std::shared_ptr<std::atomic<bool>> flag) : reached_flag(std::move(flag)) {}
  bool reached() const override { return *reached_flag; }
  std::shared_ptr<std::atomic<bool>> reached_flag;
};

constexpr std::chrono::milliseconds kNever = std::chrono::hours(1000);  // the test polls itself

}  // namespace

TEST_CASE("a lane counts calls as finished when the device reaches their marks, in order") {
  LaneProgress lane("data@0", [] { return std::string(); });
  std::vector<std::shared_ptr<std::atomic<bool>>> flags;
  for (int i = 0; i < 3; ++i) {
    flags.push_back(std::make_shared<std::atomic<bool>>(false));
    lane.issued(std::make_unique<TestMark>(flags.back()));
  }
  CHECK(lane.poll() == CommRecord::Lane{"data@0", 3, 0});
  *flags[1] = true;  // does not count before the first
  CHECK(lane.poll() == CommRecord::Lane{"data@0", 3, 0});
  *flags[0] = true;
  CHECK(lane.poll() == CommRecord::Lane{"data@0", 3, 2});
  *flags[2] = true;
  CHECK(lane.poll() == CommRecord::Lane{"data@0", 3, 3});
  lane.issued(nullptr);  // its end cannot be observed
  CHECK(lane.poll() == CommRecord::Lane{"data@0", 4, 4});
}

TEST_CASE("NcclWatch records the progress of lanes and the first error") {
  CommRecord record;
  std::string error;
  const auto lane = std::make_shared<LaneProgress>("data@0", [&] { return error; });
  NcclWatch watch(
      record, [] {}, kNever);
  watch.add(lane);
  lane->issued(std::make_unique<TestMark>(std::make_shared<std::atomic<bool>>(false)));
  const uint64_t before = record.activity().progress;
  watch.poll();
  CHECK(record.activity().lanes == Lanes{{"data@0", 1, 0}});
  CHECK(record.activity().progress == before + 1);
  watch.poll();
  CHECK(record.activity().progress == before + 1);  // nothing has changed
  CHECK(record.activity().error.empty());
  error = "NCCL: remote process exited";
  watch.poll();
  error = "another";
  watch.poll();
  CHECK(record.activity().error == "NCCL: remote process exited");
  watch.remove(lane.get());
  watch.poll();
  CHECK(record.activity().lanes.empty());
}

}  // namespace fp::test
