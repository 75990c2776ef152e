// fptrain data prepare and train-tokenizer: which inputs they take, and what they say about them first.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "cli/workspace.h"

using namespace fp::test;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
namespace fs = std::filesystem;

namespace {

// A folder in which commands run.
struct InputFolder : TemporaryFolder {
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((path / name).parent_path());
    std::ofstream(path / name, std::ios::binary) << text;
  }
  Outcome data(const std::string& arguments) const {
    return run_shell("cd '" + path.string() + "' && '" FP_EXECUTABLE "' data " + arguments);
  }
};

std::string manual(int number) {
  std::string text = "=head1 NAME\n\nModule" + std::to_string(number) + "\n\n";
  for (int i = 0; i < 30; ++i) text += "Sentence " + std::to_string(i * number) + " of a manual.\n\n";
  return text + "=head1 SEE ALSO\n\nperl\n\n=cut\n";
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}

}  // namespace

TEST_CASE("a text file is one document, so recurring headings stay in the training text") {
  const InputFolder place;
  for (int i = 0; i < 12; ++i) place.write("books/" + std::to_string(i + 10) + ".txt", manual(i));
  Outcome o = place.data("prepare --tokenizer bytes --out d books/*.txt");
  INFO(o.output);
  REQUIRE(o.code == 0);
  CHECK_THAT(o.output, Contains("documents   by file (--documents)") && Contains("train       11 documents") &&
                           Contains(" tokens/document") && !Contains("left out") && !Contains("on average"));
  CHECK(count(place.data("inspect d --dump train").output, "=head1 NAME\n") == 11);
  // Paragraphs on request; short repeats stay, and a warning says how short the documents are.
  o = place.data("prepare --tokenizer bytes --documents blank-line --out p books/*.txt");
  REQUIRE(o.code == 0);
  CHECK(count(place.data("inspect p --dump train").output, "=head1 NAME\n") >= 10);
  CHECK_THAT(o.output,
             Contains("the documents have 2") && Contains(" tokens on average") && Contains("--documents file"));
  // Whatever is left out is said first.
  o = place.data("prepare --tokenizer bytes --documents blank-line --drop-repeats 1 --out q books/*.txt");
  REQUIRE(o.code == 0);
  CHECK_THAT(o.output, StartsWith("left out    ") &&
                           Contains(" with the text of a held-out one (--drop-repeats)\nsource      10.txt"));
  CHECK(count(place.data("inspect q --dump train").output, "=head1 NAME\n") == 0);
}

TEST_CASE("a single text file gives training and held-out text") {
  const InputFolder place;
  place.write("book.txt", manual(1));
  const Outcome o = place.data("prepare --tokenizer bytes --out d book.txt");
  INFO(o.output);
  REQUIRE(o.code == 0);
  CHECK_THAT(o.output, StartsWith("divided     book.txt: its end is held out") && Contains("validation  1 document,"));
  CHECK(place.data("inspect d --dump train").output.size() + place.data("inspect d --dump validation").output.size() ==
        manual(1).size() + 2);  // a line end after each
}

TEST_CASE("folders, lists of files and standard input name the inputs, and at most ten sources are listed") {
  const InputFolder place;
  std::string list;
  for (int i = 10; i < 25; ++i) {
    const std::string name = "docs/" + std::string(i % 2 ? "a" : "b") + "/" + std::to_string(i) + ".pm";
    place.write(name, manual(i));
    list += name + "\n";
  }
  place.write("docs/logo.png", std::string("\x89PNG\0\0", 6));
  place.write("docs/empty.txt", "");
  place.write("list", list);
  const Outcome o = place.data("prepare --tokenizer bytes --out d docs");
  INFO(o.output);
  REQUIRE(o.code == 0);
  CHECK_THAT(o.output, StartsWith("left out    files that are not text: docs/logo.png\n"
                                  "left out    files without text: docs/empty.txt\n"
                                  "source      a/11.pm (") &&
                           Contains("source      ... and 6 more\n"));
  CHECK(count(o.output, "source ") == 11);
  CHECK(place.data("prepare --tokenizer bytes --out e --files-from list").code == 0);
  CHECK(place.data("prepare --tokenizer bytes --out f --files-from - < list").code == 0);
  CHECK(slurp(place / "e/train-00000.tokens") == slurp(place / "f/train-00000.tokens"));
  CHECK(place.data("train-tokenizer --vocab 300 --out t.json docs").code == 0);
  Outcome refused = place.data("prepare --tokenizer bytes --out g");
  CHECK(refused.code == 2);
  CHECK_THAT(refused.output, Contains("no input is given") && Contains("--files-from"));
  place.write("train.parquet", "PAR1");
  refused = place.data("prepare --tokenizer bytes --out g train.parquet");
  CHECK(refused.code == 2);
  CHECK_THAT(refused.output, Contains("convert it to JSON lines"));
}

TEST_CASE("text that is no text is refused with the names of the files") {
  const InputFolder place;
  place.write("good.txt", manual(1));
  place.write("latin.txt", "\xC4rger und \xD6l\n");
  for (const std::string command : {"prepare --tokenizer bytes --out d", "train-tokenizer --vocab 270 --out d"}) {
    const Outcome refused = place.data(command + " good.txt latin.txt");
    CHECK(refused.code == 3);
    CHECK_THAT(refused.output, Contains("1 input file is not text in UTF-8: latin.txt: 2 of 13 bytes") &&
                                   Contains("iconv") && Contains("--allow-bytes"));
    CHECK_FALSE(fs::exists(place / "d"));
  }
  const Outcome allowed = place.data("prepare --tokenizer bytes --out d --allow-bytes good.txt latin.txt");
  CHECK(allowed.code == 0);
  CHECK_THAT(allowed.output,
             StartsWith("not text    latin.txt: 2 of 13 bytes are not valid UTF-8; their bytes are kept"));
}

TEST_CASE("mistakes in JSON lines are reported by one line number, and advice for them is about lines") {
  const InputFolder place;
  place.write("broken.jsonl", "{\"text\": \"fine\"}\n{\"text\": \n");
  Outcome o = place.data("prepare --tokenizer bytes --out d broken.jsonl");
  CHECK(o.code == 3);
  CHECK_THAT(o.output,
             Contains("broken.jsonl:2: not JSON: column ") && !Contains("parse_error") && !Contains("line 1"));
  place.write("one.jsonl", "{\"text\": \"fine\"}\n");
  o = place.data("prepare --tokenizer bytes --out d one.jsonl");
  CHECK(o.code == 3);
  CHECK_THAT(o.output, Contains("1 document, too few") && Contains("a JSON line is one document") &&
                           Contains("--validation-fraction 0") && !Contains("--documents"));
  o = place.data("prepare --tokenizer bytes --validation-fraction 0 --out d one.jsonl");
  CHECK_THAT(o.output, Contains("documents   one for each JSON line\n"));
}

TEST_CASE("a run whose data path is text or a folder of it is told to prepare it") {
  const Workspace w;
  const Outcome o = run(
      w.train(w.spec("gpt", "fp32"), "r", {"--set", "data.train=[{path: " + (w.root() / "text.txt").string() + "}]"}));
  CHECK(o.code == 2);
  CHECK_THAT(o.output,
             Contains("text.txt: is text, not a dataset of token ids; `fptrain data prepare") && !Contains("nanogpt"));
  std::filesystem::create_directories(w.root() / "books");
  std::ofstream(w.root() / "books/one.txt") << "Text.\n";
  const Outcome folder =
      run(w.train(w.spec("gpt", "fp32"), "r", {"--set", "data.train=[{path: " + (w.root() / "books").string() + "}]"}));
  CAPTURE(folder.output);
  CHECK(folder.code == 2);
  CHECK_THAT(folder.output, Contains("books: is a folder of text, not a dataset of token ids; `fptrain data prepare"));
  // A prepared folder without its manifest is not text, even when a run has written into it.
  std::filesystem::remove(w.data() / "manifest.json");
  std::ofstream(w.data() / "verified") << "text\n";
  const Outcome damaged = run(w.train(w.spec("gpt", "fp32"), "r"));
  CAPTURE(damaged.output);
  CHECK(damaged.code == 3);
  CHECK_THAT(damaged.output, Contains("manifest.json") && !Contains("is a folder of text"));
}
