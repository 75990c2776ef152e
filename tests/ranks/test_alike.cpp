// Ranks that were started with different command lines, files or programs are refused before training, with the
// differences and the ranks that have them.
#include <catch2/catch.hpp>

#include "ranks/job.h"

using namespace fp::test;

namespace {

using Arguments = std::vector<std::string>;

Arguments both(Arguments a, const Arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class TwoRanks {
 public:
  explicit TwoRanks(const RanksWorkspace& w) : w_(w), spec_(w.spec("llama").string()) {}

  Arguments train(const Arguments& more) const {
    return both({"train", spec_, "--set", "parallel.data=2", "--set", "run.directory=" + directory().string()}, more);
  }
  std::filesystem::path directory() const { return w_.run_directory("unlike"); }

  // Reported once, with exit code 2, and nothing was trained.
  void refuse(const std::vector<RankCommand>& ranks, const std::string& message) const {
    Job job(mpirun(ranks));
    const int code = job.wait();
    CAPTURE(job.output(), message);
    CHECK(code == 2);
    CHECK(job.count(message) == 1);
    CHECK(job.processes().empty());
    CHECK_FALSE(std::filesystem::exists(directory() / "metrics.jsonl"));
  }

 private:
  const RanksWorkspace& w_;
  std::string spec_;
};

}  // namespace

TEST_CASE("ranks with different command lines are refused, with the key and its values", "[ranks]") {
  const RanksWorkspace w;
  const TwoRanks two(w);
  const auto set = [](const std::string& text) { return Arguments{"--set", text}; };
  std::filesystem::copy(w.data(), w.root() / "copy");
  struct Case {
    Arguments rank_0, rank_1;
    std::string message;
  };
  const std::vector<Case> cases = {
      {set("optimizer.lr=1e-3"), set("optimizer.lr=3e-2"), "optimizer.lr is 0.001 on rank 0 and 0.03 on rank 1"},
      {set("train.global_batch=8"), set("train.global_batch=16"), "train.global_batch is 8 on rank 0 and 16 on rank 1"},
      {{}, set("data.train[0].path=" + (w.root() / "copy").string()), "data.train[0].path is "},
      {{"--resume", "none"}, {"--resume", "auto"}, "--resume is none on rank 0 and auto on rank 1"},
      {{"--allow-data-change"}, {}, "--allow-data-change is given on rank 0 and not given on rank 1"},
      {{}, {"--hdf5"}, "--hdf5 is not given on rank 0 and given on rank 1"},
      {{}, set("optimizer.rl=1"), "the run spec is usable on rank 0 and not usable (host "},
      {set("optimizer.rl=1"), {}, "the run spec is not usable: "},
  };
  for (const Case& c : cases) two.refuse({{two.train(c.rank_0)}, {two.train(c.rank_1)}}, c.message);

  const auto lr = [&](const char* value) { return RankCommand{two.train(set(fmt::format("optimizer.lr={}", value)))}; };
  const auto four = [&](RankCommand rank) {
    rank.arguments = both(rank.arguments, set("parallel.data=4"));
    return rank;
  };
  two.refuse({four(lr("1e-3")), four(lr("3e-2")), four(lr("1e-3")), four(lr("3e-2"))},
             "optimizer.lr is 0.001 on rank 0 and 0.03 on ranks 1,3. Each rank reads its command line");
}

TEST_CASE("ranks that see another content of the run spec's file use that of rank 0", "[ranks]") {
  const RanksWorkspace w;
  const std::filesystem::path spec = w.spec("llama");
  for (const char* name : {"new", "old", "missing"}) std::filesystem::create_directories(w.root() / name);
  const std::string text = slurp(spec);
  std::ofstream(w.root() / "new/run.yaml") << text;
  std::ofstream(w.root() / "old/run.yaml") << text + "\nbroken: [";
  const auto directory = w.run_directory("stale");
  const auto in = [&](const char* folder) {
    return RankCommand{{"train", "run.yaml", "--set", "parallel.data=3", "--set", "train.global_batch=12", "--set",
                        "train.steps=4", "--set", "run.directory=" + directory.string()},
                       {"-wdir", (w.root() / folder).string()}};
  };
  Job job(mpirun({in("new"), in("old"), in("missing")}));
  const int code = job.wait();
  INFO(job.output());
  CHECK(code == 0);
  CHECK(job.count("this rank sees another content than rank 0 does") == 2);
  CHECK(history(directory).size() == 4);
}

TEST_CASE("ranks that find different data under the same name are refused", "[ranks]") {
  const RanksWorkspace w;
  const TwoRanks two(w);
  const auto elsewhere = w.root() / "elsewhere";
  std::filesystem::create_directories(elsewhere);
  std::ofstream(elsewhere / "text.txt") << slurp(w.root() / "text.txt").substr(100);
  expect_success(fptrain({"data", "prepare", "--tokenizer", "bytes", "--documents", "line", "--out",
                          (elsewhere / w.data().filename()).string(), (elsewhere / "text.txt").string()}));
  const Arguments arguments = two.train({"--set", "data.train=[{path: " + w.data().filename().string() + "}]"});
  const auto in = [&](const std::filesystem::path& folder) {
    return RankCommand{arguments, {"-wdir", folder.string()}};
  };
  two.refuse({in(w.root()), in(elsewhere)}, "the identity of data.train is ");
}

TEST_CASE("ranks that run different programs are refused", "[ranks]") {
  const RanksWorkspace w;
  const TwoRanks two(w);
  // The linker's note: sizes of name and content, type, name, content.
  std::string program = slurp(FP_EXECUTABLE);
  const std::string note("\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0", 16);
  const size_t at = program.find(note);
  REQUIRE(at != std::string::npos);
  program[at + note.size()] = static_cast<char>(program[at + note.size()] + 1);
  const auto file = w.root() / "fptrain";
  std::ofstream(file, std::ios::binary) << program;
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  two.refuse({{two.train({})}, {two.train({}), {}, file.string()}}, "the build of fptrain is ");
}

TEST_CASE("ranks of a benchmark must have the same command line", "[ranks]") {
  const RanksWorkspace w;
  const TwoRanks two(w);
  const auto bench = [](const char* repeat) {
    return RankCommand{{"bench", "schedule", "--kind", "gpipe", "--unit-ms", "1", "--repeat", repeat}};
  };
  two.refuse({bench("1"), bench("2")}, "argument 8 of the command is 1 on rank 0 and 2 on rank 1");
}
