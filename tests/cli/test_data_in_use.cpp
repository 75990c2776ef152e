// Data that changes between two starts or during a run ends it with code 3 and the file's name, whatever its time.
#include <catch2/catch.hpp>
#include <fstream>

#include "cli/workspace.h"

using namespace fp::test;
using Catch::Contains;
namespace fs = std::filesystem;

TEST_CASE("a changed byte is found at the next start, or when it is read if the file's time hides it", "[cli]") {
  const Workspace w;
  const auto spec = w.spec("gpt", "fp32");
  const auto start = [&](const std::string& name) { return run(w.train(spec, name, {"--set", "train.steps=3"})); };
  REQUIRE(start("before").code == 0);
  REQUIRE(fs::exists(w.data() / "verified"));
  const fs::path shard = w.data() / "train-00000.tokens";
  const auto time = fs::last_write_time(shard);
  std::string content = slurp(shard);
  content[content.size() / 2] ^= 1;
  std::ofstream(shard, std::ios::binary) << content;
  fs::last_write_time(shard, time + std::chrono::seconds(2));
  const Outcome seen = start("seen");
  CAPTURE(seen.output);
  CHECK(seen.code == 3);
  CHECK_THAT(seen.output, Contains("train-00000.tokens: altered") && !Contains("phase step"));
  fs::last_write_time(shard, time);
  const Outcome hidden = start("hidden");
  CAPTURE(hidden.output);
  CHECK(hidden.code == 3);
  CHECK_THAT(hidden.output, Contains("train-00000.tokens: altered: bytes 0 to"));
}

TEST_CASE("a data file that is truncated during a run ends it with 3 and the file's name", "[cli]") {
  const Workspace w;
  const fs::path file = w.root() / "zeros.bin";  // much larger than the cache
  std::ofstream(file).close();
  fs::resize_file(file, uint64_t{64} << 20);
  const std::string data = "data.train=[{path: " + file.string() + ", format: nanogpt}]";
  const auto command =
      w.train(w.spec("gpt", "fp32"), "r", {"--set", data, "--set", "data.tokenizer=bytes", "--set", "eval.every=0"});
  Process job(with_fault("rank=0,step=5,kind=stop", command), w.root() / "output");
  const bool stopped = job.wait_until_stopped();
  CAPTURE(job.output());
  REQUIRE(stopped);
  fs::resize_file(file, 100);
  job.kill(SIGCONT);
  const int code = job.wait();
  CAPTURE(job.output());
  CHECK(code == 3);
  CHECK_THAT(job.output(), Contains("zeros.bin: ends at byte") && Contains("truncated"));
}
