#include <catch2/catch.hpp>

#include "base/error.h"
#include "every_kind.h"
#include "io/filesystem.h"
#include "pipeline/lower.h"
#include "pipeline/text.h"
#include "pipeline/verify.h"
#include "support/process.h"

using namespace fp;
using namespace fp::test;

namespace {

void same(const Schedule& a, const Schedule& b) {
  CHECK(a.placement == b.placement);
  CHECK(a.micro_batches == b.micro_batches);
  CHECK(a.ranks == b.ranks);
}

std::string without_header(const std::string& csv) { return csv.substr(csv.find('\n') + 1); }

void refused(const std::string& csv, const std::string& reason) {
  CAPTURE(csv);
  CHECK_THROWS_WITH(schedule_from_csv(csv, "x.csv"), Catch::Contains(reason));
  CHECK_THROWS_AS(schedule_from_csv(csv, "x.csv"), DataError);
}

}  // namespace

TEST_CASE("actions are written with PyTorch's names", "[pipeline]") {
  CHECK(to_text({ActionKind::forward, 0, false, 3, 0}) == "3F0");
  CHECK(to_text({ActionKind::backward_input, 0, false, 2, 1}) == "2I1");
  CHECK(to_text({ActionKind::backward_weight, 1, false, 2, 11}) == "u:2W11");
  CHECK(to_text({ActionKind::backward, 1, false, 12, 4}) == "u:12B4");
  CHECK(to_text({ActionKind::send_forward, 0, false, 1, 0}) == "1SEND_F0");
  CHECK(to_text({ActionKind::receive_backward, 0, false, 1, 0}) == "1RECV_B0");
  CHECK(to_text({ActionKind::gather, 0, false, 1, -1}) == "1UNSHARD");
  CHECK(to_text({ActionKind::free, 0, false, 1, -1}) == "1RESHARD");
  CHECK(to_text({ActionKind::reduce, 0, false, 1, -1}) == "1REDUCE_GRAD");
}

TEST_CASE("every kind of schedule survives a round trip through CSV", "[pipeline]") {
  for (const Schedule& s : every_kind(4, 8))
    for (const bool lowered : {false, true}) {
      CAPTURE(s.kind, lowered);
      LoweringOptions options{.gather = true, .reduce_every = 2};
      options.costs.pairs_are_one = true;
      const Schedule whole = lowered ? lower(s, options) : s;
      same(schedule_from_csv(to_csv(whole), "x"), whole);
      same(schedule_from_csv(without_header(to_csv(whole)), "x"), whole);
    }
}

TEST_CASE("PyTorch's files with idle slots and blanks and CRLF and pairs load", "[pipeline]") {
  const Schedule s = schedule_from_csv("0F0,0F1,,,0B0,,0B1\r\n,1F0, 1B0 ,1F1,,1B1,,\r\n", "torch");
  CHECK(s.kind == "torch");
  CHECK(s.placement == Placement{.ranks = 2, .chunks = 1});
  CHECK(s.micro_batches == 2);
  CHECK(to_csv(s) ==
        "# fptrain schedule: ranks=2 chunks=1 zigzag=0 two_way=0 micro_batches=2\n"
        "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  const Schedule pairs = schedule_from_csv("# any remark\n0F0,(0F1;0B0)OVERLAP_F_B,0I1,0W1\n", "pairs");
  REQUIRE(pairs.ranks[0].size() == 5);
  CHECK(pairs.ranks[0][1].paired_with_next);
  CHECK_FALSE(pairs.ranks[0][2].paired_with_next);
  CHECK(verify(pairs).empty());
  const Schedule up = schedule_from_csv("0F0,u:1F0,u:1B0,0B0\nu:0F0,1F0,1B0,u:0B0\n", "up");
  CHECK(up.placement == Placement{.ranks = 2, .two_way = true});
  CHECK(up.micro_batches == 2);
  CHECK(verify(up).empty());
  const Schedule there_and_back = schedule_from_csv("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n", "v");
  CHECK(there_and_back.placement == Placement{.ranks = 2, .chunks = 2, .zigzag = true});
}

TEST_CASE("cells that are no actions are refused with line and cell and the legal forms", "[pipeline]") {
  for (const char* cell : {"F0", "0X0", "0F", "0F0x", "0F-1", "-1F0", "0SEND_G0", "0UNSHARD0", "u:0UNSHARD", "v:0F0",
                           "(0F0;0B0)", "(0F0;0F1)OVERLAP_F_B", "(0F0,0B0)OVERLAP_F_B", "99999999999F0", "0f0"}) {
    CAPTURE(cell);
    refused(fmt::format("0F0,0B0\n1F0,{},1B0\n", cell), "x.csv:2: cell 2, '");
  }
  refused("0F0,0Q0\n", "x.csv:1: cell 2, '0Q0': is no action; legal are 3F0, 3I0, 3W0, 3B0 (stage, kind, micro-batch)");
}

TEST_CASE("inconsistent schedule files are refused", "[pipeline]") {
  refused("", "no rows of actions");
  refused("\n\n", "no rows of actions");
  refused(",,,\n", "no rows of actions");
  refused("0F0,1F0,2F0\n0F0\n", "3 stages are not a multiple of 2 ranks");
  refused("0F0,2F0\n1F0,3F0\n3F0,2F0\n0F0,4F0,5F0\n", "6 stages are not a multiple of 4 ranks");
  refused("1F0\n0F0\n", "neither round after round nor there and back");
  refused("0F0,0B0,0F1000000000\n", "3 actions are too few for 1 stages and 1000000001 micro-batches");
  const std::string header = "# fptrain schedule: ranks=2 chunks=1 zigzag=0 two_way=0 micro_batches=1\n";
  refused(header + "0F0,0B0\n", "1 rows for 2 ranks");
  refused(header + "0F0,0B0\n2F0,1B0\n", "x.csv:3: cell 1, '2F0': stages are 0 to 1");
  refused(header + "0F0,0B0\n1F0,1B1\n", "x.csv:3: cell 2, '1B1': micro-batches of a pipe are 0 to 0");
  refused(header + "0F0,0B0\nu:1F0,1B0\n", "x.csv:3: cell 1, 'u:1F0': there is one pipe");
  refused("# fptrain schedule: ranks=0 chunks=1 zigzag=0 two_way=0 micro_batches=1\n0F0\n", "x.csv:1: a header is");
  refused("# fptrain schedule: ranks=2 chunks=1\n0F0\n", "x.csv:1: a header is");
  refused("# fptrain schedule: ranks=2 chunks=1 zigzag=0 two_way=1 micro_batches=3\n0F0\n", "x.csv:1: a header is");
  refused("# fptrain schedule: ranks=3 chunks=1 zigzag=0 two_way=1 micro_batches=2\n0F0\n1F0\n2F0\n",
          "two ways with an even number of ranks");
  refused("0F0,u:2F0\n1F0,u:1F0\n2F0,u:0F0\n", "x.csv: 3 ranks; a schedule of two ways needs an even number");
  refused("# fptrain schedule: ranks=2 chunks=2147483647 zigzag=0 two_way=0 micro_batches=1\n0F0\n1F0\n",
          "x.csv:1: a header is");
  refused("# fptrain schedule: ranks=1 chunks=9999 zigzag=0 two_way=0 micro_batches=1\n0F0\n",
          "too few for 9999 stages");
}

TEST_CASE("schedules load from files", "[pipeline]") {
  const test::TemporaryFolder folder;
  const auto path = folder.path / "one.csv";
  CHECK_THROWS_AS(load_schedule(path), DataError);
  write_file_atomically(path, "0F0,0B0\n");
  const Schedule s = load_schedule(path);
  CHECK(s.kind == path.string());
  CHECK(s.micro_batches == 1);
}
