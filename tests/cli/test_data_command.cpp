// fptrain data: from a text file to a verified folder, and the exit codes of errors.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "support/process.h"

using Catch::Matchers::Contains;
using fp::test::Outcome;
using fp::test::run_shell;

namespace {

// A temporary folder with a small text, in which commands run.
struct Workplace : fp::test::TemporaryFolder {
  Workplace() {
    std::ofstream text(path / "book.txt");
    for (int chapter = 1; chapter <= 20; ++chapter) {
      text << "Chapter " << chapter << "\n";
      for (int line = 0; line < 5; ++line) text << "In chapter " << chapter << " this is line " << line << ".\n";
    }
  }
  Outcome data(const std::string& arguments) const {
    return run_shell("cd '" + path.string() + "' && '" FP_EXECUTABLE "' data " + arguments);
  }
  std::string content(const std::string& name) const {
    std::ifstream file(path / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

}  // namespace

TEST_CASE("a text survives tokenizer training, preparation and decoding") {
  const Workplace place;
  REQUIRE(place.data("train-tokenizer --vocab 280 --out t.json book.txt --documents line").code == 0);
  const Outcome prepared = place.data("prepare --tokenizer t.json --out out --documents 'start:^Chapter' book.txt");
  INFO(prepared.output);
  REQUIRE(prepared.code == 0);
  CHECK_THAT(prepared.output, Contains("train       18 documents") && Contains("validation  2 documents"));
  const Outcome shown = place.data("inspect out");
  CHECK(shown.code == 0);
  CHECK_THAT(shown.output,
             Contains("validation[0]: Chapter 19\\nIn chapter 19") && Contains("all files match their hashes"));
  CHECK(place.data("inspect out --json").output == place.content("out/manifest.json"));
  CHECK(place.data("inspect out --dump train").output + place.data("inspect out --dump validation").output ==
        place.content("book.txt"));
}

TEST_CASE("mistakes on the data command line end with exit code 2") {
  const Workplace place;
  const std::string prepare = "prepare --tokenizer bytes --out out book.txt ";
  for (const std::string& arguments :
       {std::string(""), std::string("prepare"), prepare + "--documents page", prepare + "--documents 'start:('",
        prepare + "--validation-fraction 1", prepare + "--shard-tokens -1", prepare + "--threads x",
        prepare + "--colour red", std::string("train-tokenizer --vocab 10 --out t.json book.txt"),
        std::string("train-tokenizer --vocab 300 --out book.txt book.txt")}) {
    INFO(arguments);
    CHECK(place.data(arguments).code == 2);
  }
  CHECK_FALSE(std::filesystem::exists(place / "out"));
}

TEST_CASE("bad data ends with exit code 3 and the name of the file") {
  const Workplace place;
  std::ofstream(place / "bad.jsonl") << "{\"text\": \"fine\"}\n{\"text\": \n";
  Outcome outcome = place.data("prepare --tokenizer bytes --out out bad.jsonl");
  CHECK(outcome.code == 3);
  CHECK_THAT(outcome.output, Contains("bad.jsonl:2: not JSON: column "));
  CHECK(place.data("prepare --tokenizer bytes --out out missing.txt").code == 3);
  CHECK(place.data("prepare --tokenizer missing.json --out out book.txt").code == 3);
  CHECK(place.data("inspect missing").code == 3);
  REQUIRE(place.data("prepare --tokenizer bytes --out out --documents line book.txt").code == 0);
  std::filesystem::resize_file(place / "out/validation-00000.tokens", 10);
  outcome = place.data("inspect out");
  CHECK(outcome.code == 3);
  CHECK_THAT(outcome.output, Contains("validation-00000.tokens: 10 bytes"));
}

TEST_CASE("a prepared folder is converted to another format and inspected there") {
  const Workplace place;
  REQUIRE(place.data("prepare --tokenizer bytes --out out --documents line book.txt").code == 0);
  const Outcome converted = place.data("convert out --to megatron --out book_text_document --split validation");
  INFO(converted.output);
  REQUIRE(converted.code == 0);
  CHECK(place.data("inspect book_text_document --tokenizer bytes --dump train").output ==
        place.data("inspect out --dump validation").output);
  CHECK_THAT(place.data("inspect book_text_document --tokenizer bytes").output,
             Contains("format      megatron") && Contains("highest id used 256"));
  CHECK(place.data("inspect book_text_document").code == 2);
  CHECK(place.data("inspect book_text_document --tokenizer bytes --dump validation").code == 2);
  CHECK(place.data("convert out --to megatron --out book_text_document").code == 2);
  CHECK(place.data("convert out --to megatron --out book_text_document --overwrite").code == 0);
  const Outcome onto_itself = place.data("convert out --to prepared --out ./out --overwrite");
  CHECK(onto_itself.code == 2);
  CHECK_THAT(onto_itself.output, Contains("belongs to the dataset that is read"));
  CHECK_THAT(place.data("inspect out").output, Contains("validation"));
  CHECK(
      place.data("convert book_text_document.bin --tokenizer bytes --to megatron --out book_text_document --overwrite")
          .code == 2);
  std::filesystem::resize_file(place / "book_text_document.bin", 10);
  CHECK(place.data("inspect book_text_document --tokenizer bytes").code == 3);
}

TEST_CASE("conversations are prepared by a template and mistakes in them reported") {
  const Workplace place;
  const std::string prepare = "prepare --tokenizer t.json --out out --validation-fraction 0 chat.jsonl ";
  std::ofstream(place / "chat.jsonl") << R"({"messages": [{"role": "user", "content": "a"}]})"
                                      << "\n";
  REQUIRE(place.data("train-tokenizer --vocab 280 --no-chat-tokens --out t.json book.txt").code == 0);
  Outcome outcome = place.data(prepare + "--chat phi3");
  CHECK(outcome.code == 3);
  CHECK_THAT(outcome.output, Contains("no special token <|system|>") && Contains("train-tokenizer --special"));
  CHECK(place.data(prepare + "--chat alpaca").code == 2);
  CHECK(place.data(prepare + "--chat phi3 --preferences phi3").code == 2);
  CHECK(place.data(prepare + "--chat phi3 --parse-special").code == 2);
  CHECK(place.data(prepare + "--allow-special-text").code == 2);
  REQUIRE(place.data("train-tokenizer --vocab 280 --overwrite --out t.json book.txt").code == 0);
  outcome = place.data(prepare + "--chat phi3");
  CHECK(outcome.code == 3);
  CHECK_THAT(outcome.output, Contains("chat.jsonl:1: no message has the role assistant"));
  CHECK_THAT(place.data("prepare --tokenizer t.json --out out chat.jsonl --chat phi3").output,
             Contains("chat.jsonl:1: no message has the role assistant") && !Contains("too few"));
  std::ofstream(place / "chat.jsonl")
      << R"({"messages": [{"role": "user", "content": "a"}], "chosen": "b", "rejected": "c"})"
      << "\n";
  outcome = place.data(prepare + "--preferences phi3");
  INFO(outcome.output);
  REQUIRE(outcome.code == 0);
  CHECK_THAT(outcome.output, Contains("kind        preferences, by the template phi3") && Contains("2 documents"));
  CHECK_THAT(place.data("inspect out").output, Contains("all files match their hashes"));
}

TEST_CASE("data tokenize prints or writes ids and data detokenize restores the text") {
  const Workplace w;
  REQUIRE(w.data("train-tokenizer book.txt --vocab 262 --no-chat-tokens --out t.json").code == 0);
  CHECK(w.data("tokenize book.txt --tokenizer t.json --out ids.bin").output.empty());
  CHECK(w.data("detokenize ids.bin --tokenizer t.json").output == w.content("book.txt"));
  CHECK(w.data("tokenize book.txt --tokenizer bytes").output.substr(0, 11) == "67\n104\n97\n1");
  std::ofstream(w / "special.txt") << "a<|endoftext|>";
  CHECK(w.data("tokenize special.txt --tokenizer t.json --parse-special").output == "64\n261\n");
  const Outcome cut = w.data("detokenize special.txt --tokenizer t.json");
  CHECK(cut.code == 3);
  CHECK_THAT(cut.output, Contains("14 bytes"));
  const std::vector<int32_t> ids = {67, 104, -1, 400};
  std::ofstream(w / "wrong.bin", std::ios::binary)
      .write(reinterpret_cast<const char*>(ids.data()), static_cast<std::streamsize>(ids.size() * sizeof(int32_t)));
  const Outcome wrong = w.data("detokenize wrong.bin --tokenizer t.json");
  CHECK(wrong.code == 3);
  CHECK_THAT(wrong.output, Contains("id 4294967295 at byte 8 is not in the vocabulary of 262 ids"));
  CHECK(w.data("tokenize book.txt --tokenizer nowhere.json").code == 3);
}
