// fptrain checkpoint list|inspect|verify|diff|consolidate as a person or a script meets them.
#include "checkpoint/fixture.h"
#include "support/process.h"

namespace fp::test {
namespace {

using std::filesystem::path;

testing::Outcome checkpoint(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {FP_EXECUTABLE, "checkpoint"});
  return testing::run(arguments);
}

struct Run {
  TempDir dir;
  path checkpoints = dir.path / "checkpoints";
  State state{small_table()};
  path first = save(checkpoints, state, 10, 1);
  path second = save(checkpoints, state, 20, 2);
};

TEST_CASE("list shows the checkpoints of a run, good and bad") {
  const Run run;
  std::filesystem::remove(run.first / "index.h5");
  const auto out = checkpoint({"list", run.dir.path.string()});
  CHECK(out.code == 3);
  CHECK(out.output.find("step-00000020") < out.output.find("step-00000010"));
  CHECK(contains(out.output, "20.3333333"));
  CHECK(contains(out.output, "complete"));
  CHECK(contains(out.output, "damaged"));
  CHECK(contains(out.output, "index.h5: is missing"));
  CHECK(checkpoint({"list", (run.dir.path / "none").string()}).code == 3);
}

TEST_CASE("list shows a checkpoint given by its own path, good or bad") {
  const Run run;
  const auto all = checkpoint({"list", run.dir.path.string()});
  CHECK(all.code == 0);
  CHECK(contains(all.output, "step-00000010"));
  const auto one = checkpoint({"list", run.first.string() + "/"});
  CHECK(one.code == 0);
  CHECK(contains(one.output, "step-00000010"));
  CHECK(contains(one.output, "complete"));
  CHECK_FALSE(contains(one.output, "step-00000020"));
  std::filesystem::remove(run.first / "manifest.json");
  const auto damaged = checkpoint({"list", run.first.string()});
  CHECK(damaged.code == 3);
  CHECK(contains(damaged.output, "step-00000010"));
  CHECK(contains(damaged.output, "damaged"));
  const TempDir empty;
  const auto none = checkpoint({"list", empty.path.string()});
  CHECK(none.code == 0);
  CHECK(contains(none.output, "no checkpoints"));
}

TEST_CASE("inspect shows every tensor, or one of them") {
  const Run run;
  const auto all = checkpoint({"inspect", run.dir.path.string()});
  CHECK(all.code == 0);
  CHECK(contains(all.output, "step 20, 160 samples"));
  for (const Param& p : run.state.table) CHECK(contains(all.output, p.name));
  const std::string name = "model.layers.1.self_attn.o_proj.weight";
  const auto one = checkpoint({"inspect", run.first.string(), "--param", name});
  CHECK(one.code == 0);
  CHECK(contains(one.output, name + " [16,32]"));
  CHECK(contains(one.output, fmt::format("first: {:.9g}", known_value(name, StateKind::param, 0, 1))));
  CHECK(contains(one.output, "exp_avg_sq/0 of shape [16,32] at [0,0] in rank-00000.h5"));
  const auto none = checkpoint({"inspect", run.first.string(), "--param", "o_proj"});
  CHECK(none.code == 2);
  CHECK(contains(none.output, "holds no such parameter"));
}

TEST_CASE("consolidate copies the newest checkpoint and overwrites nothing") {
  const Run run;
  const std::string copy = (run.dir.path / "copy").string();
  const auto made = checkpoint({"consolidate", run.dir.path.string(), "--output", copy});
  CHECK(contains(made.output, copy + ": made and verified"));
  CHECK(made.code == 0);
  CHECK(checkpoint({"diff", run.second.string(), copy}).code == 0);
  const auto again = checkpoint({"consolidate", run.dir.path.string(), "--output", copy});
  CHECK(contains(again.output, "exists already"));
  CHECK(again.code == 2);
}

TEST_CASE("verify ends with 3 and names the damaged file") {
  const Run run;
  CHECK(checkpoint({"verify", run.dir.path.string()}).code == 0);
  std::string content = read_file(run.first / "rank-00000.h5");
  content[content.size() / 2] = static_cast<char>(content[content.size() / 2] ^ 1);
  put_file(run.first / "rank-00000.h5", content);
  const auto one = checkpoint({"verify", run.first.string()});
  CHECK(one.code == 3);
  CHECK(contains(one.output, "rank-00000.h5: content differs"));
  const auto all = checkpoint({"verify", run.dir.path.string()});
  CHECK(all.code == 3);
  CHECK(contains(all.output, "step-00000020: good"));
  CHECK(contains(all.output, "step-00000010: damaged"));
  CHECK(checkpoint({"verify", (run.dir.path / "none").string()}).code == 3);
}

TEST_CASE("diff ends with 0, 1 or 3") {
  Run run;
  const path same = save(run.dir.path / "other", run.state, 20, 2);
  const auto equal = checkpoint({"diff", run.second.string(), same.string()});
  CHECK(equal.code == 0);
  CHECK(contains(equal.output, "45 tensors compared, all bit-identical; step, samples and loss are the same"));
  const auto different = checkpoint({"diff", run.first.string(), run.second.string()});
  CHECK(different.code == 1);
  CHECK(contains(different.output, "45 tensors compared, 45 differ"));
  CHECK(contains(different.output, "step: 10 and 20"));
  std::filesystem::remove(same / "manifest.json");
  CHECK(checkpoint({"diff", run.second.string(), same.string()}).code == 3);
  CHECK(checkpoint({"diff", run.second.string()}).code == 2);
}

}  // namespace
}  // namespace fp::test
