// Key-value texts: lengths are exact, pairs are where they belong, and a corpus of them fills the samples of a run.
#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "data/prepare/key_value_corpus.h"
#include "data/sampling/sampler.h"
#include "data/text/key_values.h"
#include "support.h"

using namespace fp;
using namespace fp::test;
using Catch::Contains;

namespace {

using Asked = KeyValueTexts::Asked;

// Filler of the byte '.', which occurs in no pair.
KeyValueTexts dotted(const Tokenizer& tokenizer) { return {tokenizer, Filler(std::vector<int32_t>(17, '.'), 256)}; }

// Returns how often each pair "<qkZD>" is in a text.
std::map<std::string, int> pairs_in(const std::string& text) {
  std::map<std::string, int> pairs;
  for (size_t at = 0; (at = text.find('<', at)) != std::string::npos; ++at)
    if (const std::string pair = text.substr(at, 6); pair.size() == 6 && pair[5] == '>') ++pairs[pair];
  return pairs;
}

std::string identity_of_folder(const std::filesystem::path& folder) {
  DatasetSource source;
  source.path = folder.string();
  return open_dataset(source, Split::train)->identity();
}

}  // namespace

TEST_CASE("a needle is asked for at the end of a text of exact length", "[data]") {
  const auto tokenizer = load_tokenizer("bytes");
  const KeyValueTexts texts = dotted(*tokenizer);
  const std::vector<double> depths = {100, 0, 40};
  std::set<std::string> seen;
  for (const int64_t length : {texts.shortest_needle(3), int64_t{128}, int64_t{1000}})
    for (size_t asked = 0; asked < depths.size(); ++asked)
      for (uint64_t i = 0; i < 20; ++i) {
        const NeedleSample sample = texts.needle(length, depths, asked, {7, i, static_cast<uint32_t>(asked)});
        CHECK(static_cast<int64_t>(sample.prompt.size() + sample.answer.size()) == length);
        const std::string prompt = tokenizer->decode(sample.prompt), answer = tokenizer->decode(sample.answer);
        CAPTURE(prompt, answer);
        const std::string question = prompt.substr(prompt.size() - 3);
        const size_t at = prompt.find(question + answer + ">");
        REQUIRE(at < prompt.size() - 3);
        CHECK(pairs_in(prompt).size() == depths.size());
        const auto dots = std::count(prompt.begin(), prompt.begin() + static_cast<int64_t>(at), '.');
        const auto all = std::count(prompt.begin(), prompt.end(), '.');
        CHECK(static_cast<double>(dots) == Approx(depths[asked] / 100 * static_cast<double>(all)).margin(0.5));
        const NeedleSample again = texts.needle(length, depths, asked, {7, i, static_cast<uint32_t>(asked)});
        CHECK(again.prompt == sample.prompt);
        seen.insert(question + answer);
      }
  CHECK(seen.size() == 60);  // each sample draws its own pairs, the same for all lengths
}

TEST_CASE("a tokenizer that writes no tokens or very many for a pair is refused", "[data]") {
  for (const std::string& content : {std::string(), std::string(16, 'q')}) {
    auto json = nlohmann::json::parse(trained_json("the cat the cat the hat", 262));
    json["normalizer"] = {{"type", "Replace"}, {"pattern", {{"Regex", "[<>A-Za-z]"}}}, {"content", content}};
    const auto tokenizer = parse_tokenizer(json.dump(), "t.json");
    CHECK_THAT(message_of<ConfigError>([&] { dotted(*tokenizer); }), Contains("a pair such as <qkZD>"));
  }
}

TEST_CASE("a training document repeats its pairs", "[data]") {
  const auto tokenizer = load_tokenizer("bytes");
  const KeyValueTexts texts = dotted(*tokenizer);
  std::set<size_t> numbers;
  for (const int64_t length : {KeyValueTexts::kShortestDocument, int64_t{255}, int64_t{5000}, int64_t{20000}})
    for (uint64_t i = 0; i < 20; ++i) {
      const std::vector<int32_t> ids = texts.document(length, Asked::anywhere, {1, i, 1});
      CHECK(static_cast<int64_t>(ids.size()) == length);
      const std::string text = tokenizer->decode(ids);
      std::set<std::string> keys;
      int64_t mentions = 0;
      const auto pairs = pairs_in(text);
      for (const auto& [pair, times] : pairs) {
        keys.insert(pair.substr(0, 3));
        mentions += times;
      }
      CHECK(keys.size() == pairs.size());  // one value for each key
      CHECK(pairs.size() <= KeyValueTexts::kMostPairs);
      CHECK(static_cast<int64_t>(pairs.size()) <= mentions / 2);
      CHECK(mentions >= length / 6 / 4);
      CHECK(mentions * 6 + std::count(text.begin(), text.end(), '.') == length);
      if (length == 255) numbers.insert(pairs.size());
      CHECK(ids == texts.document(length, Asked::anywhere, {1, i, 1}));
    }
  CHECK(numbers.size() > 3);
}

TEST_CASE("a training document whose questions are at its end has each pair once before them", "[data]") {
  const auto tokenizer = load_tokenizer("bytes");
  const KeyValueTexts texts = dotted(*tokenizer);
  for (const int64_t length : {KeyValueTexts::kShortestDocument, int64_t{255}, int64_t{5000}})
    for (uint64_t i = 0; i < 20; ++i) {
      const std::string text = tokenizer->decode(texts.document(length, Asked::at_end, {1, i, 1}));
      CHECK(static_cast<int64_t>(text.size()) == length);
      const auto pairs = pairs_in(text);
      for (const auto& [pair, times] : pairs) CHECK(times == 2);
      const auto asked = pairs_in(text.substr(text.size() - 6 * pairs.size()));
      CHECK(asked.size() == pairs.size());
    }
}

TEST_CASE("a filler repeats without its ends of text", "[data]") {
  const Filler filler({1, 2, 0, 3}, 0);
  std::vector<int32_t> ids = {9};
  uint64_t at = 3;
  filler.append(at, 5, ids);
  CHECK(ids == std::vector<int32_t>{9, 3, 1, 2, 3, 1});
  filler.append(at, 2, ids);
  CHECK(ids == std::vector<int32_t>{9, 3, 1, 2, 3, 1, 2, 3});
  CHECK_THROWS_AS(Filler({}, 0), DataError);
  at = 0;
  CHECK_THROWS_AS(Filler({0, 0}, 0).append(at, 1, ids), DataError);
}

TEST_CASE("a key-value corpus fills the samples of a run with whole documents", "[data]") {
  const TemporaryFolder dir;
  prepare_lines(dir, numbered_lines(2000), "text");
  KeyValueCorpusOptions o;
  o.filler.path = (dir / "text").string();
  o.out = dir / "pairs";
  o.lengths = {128, 512};
  o.samples = 30;
  const KeyValueCorpusResult r = write_key_value_corpus(o);
  CHECK(r.tokens == 30 * 512 + 1);

  DataSection data;
  data.train = {{.path = (dir / "pairs").string()}};
  data.seq_len = 512;
  const TrainSampler sampler(data, 3);
  CHECK(sampler.epoch_samples(0) == 30);
  std::set<uint64_t> starts;
  int shorter = 0;
  for (uint64_t g = 0; g < 60; ++g) {
    starts.insert(sampler.place(g).first_token);
    Batch b;
    sampler.fill(g, 1, b);
    const auto ends = std::count(b.targets.begin(), b.targets.end(), sampler.tokenizer().eot());
    CHECK((ends == 0 || ends == 1 || ends == 3 || ends == 4));  // the last document ends one token later
    shorter += ends >= 3 ? 1 : 0;
  }
  CHECK(starts.size() == 30);
  for (const uint64_t start : starts) CHECK(start % 512 == 0);
  CHECK(shorter > 10);
  CHECK(shorter < 50);

  CHECK_THAT(message_of<ConfigError>([&] { write_key_value_corpus(o); }), Contains("exists already"));
  o.overwrite = true;
  const auto first = identity_of_folder(dir / "pairs");
  write_key_value_corpus(o);
  CHECK(identity_of_folder(dir / "pairs") == first);
  o.seed = 2;
  write_key_value_corpus(o);
  CHECK(identity_of_folder(dir / "pairs") != first);

  o.filler.path = o.out.string();
  CHECK_THAT(message_of<ConfigError>([&] { write_key_value_corpus(o); }), Contains("belongs to the dataset"));
  CHECK(identity_of_folder(dir / "pairs") != first);

  o.lengths = {100, 512};
  CHECK_THAT(message_of<ConfigError>([&] { write_key_value_corpus(o); }), Contains("--lengths 100: does not divide"));
  o.lengths = {64};
  CHECK_THAT(message_of<ConfigError>([&] { write_key_value_corpus(o); }), Contains("legal: more than 64 tokens"));
  o.lengths = {512};
  o.samples = 0;
  CHECK_THAT(message_of<ConfigError>([&] { write_key_value_corpus(o); }), Contains("--samples 0: legal: 1 or more"));
}
