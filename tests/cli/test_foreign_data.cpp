// Training on files of other trainers takes the same steps as on the folder they were made from, and resumes.
#include <catch2/catch.hpp>

#include "cli/workspace.h"

using namespace fp::test;
using Catch::Contains;

TEST_CASE("a run on a Megatron dataset equals one on the prepared folder and resumes", "[cli]") {
  const Workspace w;
  const auto spec = w.spec("llama", "fp32");
  const std::string pair = (w.root() / "text_document").string();
  REQUIRE(run(fptrain({"data", "convert", w.data().string(), "--to", "megatron", "--out", pair})).code == 0);
  REQUIRE(run(w.train(spec, "folder", {"--set", "train.steps=8", "--set", "eval.every=0"})).code == 0);
  const std::vector<std::string> data = {"--set", "data.train=[{path: '" + pair + "'}]",
                                         "--set", "data.tokenizer=bytes",
                                         "--set", "train.steps=8",
                                         "--set", "eval.every=0"};
  auto first = data;
  first.insert(first.end(), {"--set", "train.max_minutes=1e-9"});  // stops after one step
  Outcome o = run(w.train(spec, "pair", first));
  INFO(o.output);
  REQUIRE(o.code == 0);
  o = run(w.train(spec, "pair", data));
  INFO(o.output);
  REQUIRE(o.code == 0);
  CHECK_THAT(o.output, Contains("resumed from"));
  CHECK(history(w.run_directory("pair")) == history(w.run_directory("folder")));

  std::fstream bin(pair + ".bin", std::ios::in | std::ios::out | std::ios::binary);
  bin.write("xy", 2);  // not a token id of this tokenizer
  bin.close();
  o = run(w.train(spec, "pair", {data.begin(), data.end()}));
  CHECK(o.code == 2);
  CHECK_THAT(o.output, Contains("data.train:"));
  auto untokenized = data;
  untokenized.erase(untokenized.begin() + 2, untokenized.begin() + 4);
  o = run(w.train(spec, "other", untokenized));
  CHECK(o.code == 2);
  CHECK_THAT(o.output, Contains("data.tokenizer"));
}

TEST_CASE("a run that samples documents cannot resume with another data.sampling", "[cli]") {
  const Workspace w;
  const auto spec = w.spec("gpt", "fp32");
  std::vector<std::string> documents = {"--set", "data.sampling=documents", "--set", "train.steps=4",
                                        "--set", "model.max_position=64"};
  Outcome o = run(w.train(spec, "r", documents));
  CHECK(o.code == 3);
  CHECK_THAT(o.output, Contains("data.long_documents: truncate or drop"));
  documents.insert(documents.end(), {"--set", "data.seq_len=64"});
  o = run(w.train(spec, "r", documents));
  INFO(o.output);
  REQUIRE(o.code == 0);
  o = run(w.train(spec, "r", {"--set", "data.seq_len=64", "--set", "model.max_position=64", "--set", "train.steps=5"}));
  CHECK(o.code == 2);
  CHECK_THAT(o.output, Contains("data.sampling: \"documents\" in the checkpoint, absent now"));
}
