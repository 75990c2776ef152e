// tokenizer.json: what is read, and that no relevant setting is ignored.
#include <catch2/catch.hpp>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/support.h"
#include "data/tokenizer/bpe_tokenizer.h"
#include "data/tokenizer/byte_alphabet.h"

using namespace fp;
using namespace fp::test;
using Json = nlohmann::json;
using Catch::Matchers::Contains;

namespace {

// A GPT-2 style file: the 256 bytes, "he" and "hel", and the end-of-text token.
Json small() {
  Json vocab = Json::object();
  const ByteAlphabet alphabet;
  const auto order = alphabet.in_order();
  for (size_t id = 0; id < 256; ++id) vocab[alphabet.to_printable(std::string(1, static_cast<char>(order[id])))] = id;
  vocab["he"] = 256;
  vocab["hel"] = 257;
  const Json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens",
           {{{"id", 258},
             {"content", "<|endoftext|>"},
             {"single_word", false},
             {"lstrip", false},
             {"rstrip", false},
             {"normalized", false},
             {"special", true}}}},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level},
          {"post_processor", byte_level},
          {"decoder", byte_level},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", ""},
            {"end_of_word_suffix", ""},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"vocab", vocab},
            {"merges", {"h e", "he l"}}}}};
}

std::unique_ptr<Tokenizer> parse(const Json& json) { return parse_tokenizer(json.dump(), "t.json"); }

std::string error_of(const std::function<void(Json&)>& change) {
  Json json = small();
  change(json);
  return message_of<DataError>([&] { parse(json); });
}

}  // namespace

TEST_CASE("a GPT-2 style tokenizer.json is read") {
  const auto tokenizer = parse(small());
  CHECK(tokenizer->vocab_size() == 259);
  CHECK(tokenizer->eot() == 258);
  CHECK(tokenizer->encode("hello!") == std::vector<int32_t>{257, 'l' - 33, 'o' - 33, 0});
  CHECK(tokenizer->bytes_of(257) == "hel");
  CHECK(tokenizer->bytes_of(258).empty());
  CHECK(tokenizer->serialized() == small().dump());
}

TEST_CASE("a special token that merges can spell stays text") {
  Json json = small();
  json["added_tokens"].push_back({{"id", 257}, {"content", "hel"}, {"special", true}});  // the result of a merge
  for (const bool whole_words : {false, true}) {
    json["model"]["ignore_merges"] = whole_words;
    const auto tokenizer = parse(json);
    CHECK(tokenizer->encode("hel", SpecialText::as_token) == std::vector<int32_t>{257});
    CHECK(tokenizer->encode("hel", SpecialText::as_text) == std::vector<int32_t>{256, 'l' - 33});
    CHECK(tokenizer->encode("he", SpecialText::as_text) == std::vector<int32_t>{256});
  }
}

TEST_CASE("truncation and padding settings have no effect") {
  Json json = small();
  json["truncation"] = {{"max_length", 2}, {"stride", 0}, {"strategy", "LongestFirst"}};
  json["padding"] = {{"strategy", {{"Fixed", 8}}}, {"pad_id", 258}};
  CHECK(parse(json)->encode("hello!") == parse(small())->encode("hello!"));
}

TEST_CASE("merges are read as strings and as pairs, also without a model type") {
  Json pairs = small();
  pairs["model"]["merges"] = Json::array({Json::array({"h", "e"}), Json::array({"he", "l"})});
  pairs["model"].erase("type");
  CHECK(parse(pairs)->encode("hello") == parse(small())->encode("hello"));
  CHECK(parse(pairs)->hash() != parse(small())->hash());
}

TEST_CASE("the end-of-text token may be listed in the vocabulary as well") {
  Json json = small();
  json["model"]["vocab"]["<|endoftext|>"] = 258;
  CHECK(parse(json)->eot() == 258);
  json["model"]["vocab"]["<|endoftext|>"] = 259;
  CHECK_THROWS_AS(parse(json), DataError);
}

TEST_CASE("added tokens are matched leftmost and longest first") {
  Json json = small();
  json["added_tokens"].push_back({{"id", 259}, {"content", "<|end"}, {"special", false}, {"normalized", false}});
  const auto tokenizer = parse(json);
  CHECK(tokenizer->encode("<|endoftext|><|end") == std::vector<int32_t>{258, 259});
  CHECK(tokenizer->decode(std::vector<int32_t>{258, 259}) == "<|end");  // only special tokens decode to no text
}

TEST_CASE("unsupported settings of a tokenizer.json are refused by name") {
  CHECK_THAT(error_of([](Json& j) { j["normalizer"] = {{"type", "Lowercase"}}; }), Contains("t.json: normalizer.type"));
  CHECK_THAT(error_of([](Json& j) { j["pre_tokenizer"]["type"] = "Digits"; }), Contains("pre_tokenizer.type"));
  CHECK_THAT(error_of([](Json& j) { j["pre_tokenizer"] = nullptr; }), Contains("decoder"));
  CHECK_THAT(error_of([](Json& j) {
               j["post_processor"] = {{"type", "RobertaProcessing"}};
             }),
             Contains("post_processor.type"));
  CHECK_THAT(error_of([](Json& j) { j["decoder"] = nullptr; }), Contains("decoder"));
  CHECK_THAT(error_of([](Json& j) { j["model"]["type"] = "Unigram"; }), Contains("model.type"));
  CHECK_THAT(error_of([](Json& j) { j["model"]["dropout"] = 0.1; }), Contains("model.dropout"));
  CHECK_THAT(error_of([](Json& j) { j["model"]["end_of_word_suffix"] = "</w>"; }),
             Contains("model.end_of_word_suffix"));
  CHECK_THAT(error_of([](Json& j) { j["novelty"] = 1; }), Contains("novelty: unknown field"));
  CHECK_THAT(error_of([](Json& j) { j["model"]["novelty"] = 1; }), Contains("model.novelty: unknown field"));
}

TEST_CASE("malformed fields of a tokenizer.json are refused by name") {
  CHECK_THAT(error_of([](Json& j) { j.erase("model"); }), Contains("model: missing"));
  CHECK_THAT(error_of([](Json& j) { j["model"].erase("vocab"); }), Contains("model.vocab: missing"));
  CHECK_THAT(error_of([](Json& j) { j["model"]["vocab"].erase("a"); }), Contains("0x61"));
  CHECK_THAT(error_of([](Json& j) { j["model"]["vocab"]["x"] = -1; }), Contains("model.vocab[\"x\"]"));
  CHECK_THAT(error_of([](Json& j) { j["model"]["vocab"]["x"] = 1e9; }), Contains("model.vocab[\"x\"]"));
  CHECK_THAT(error_of([](Json& j) { j["model"]["vocab"]["he"] = 0; }), Contains("taken twice"));
  CHECK_THAT(error_of([](Json& j) { j["model"]["merges"].push_back("q q"); }), Contains("model.merges[2]: \"qq\""));
  CHECK_THAT(error_of([](Json& j) { j["model"]["merges"].push_back("h e"); }), Contains("model.merges[2]: repeats"));
  CHECK_THAT(error_of([](Json& j) { j["model"]["merges"].push_back("he"); }), Contains("model.merges[2]"));
  CHECK_THAT(error_of([](Json& j) { j["model"]["merges"].push_back("h  e"); }), Contains("model.merges[2]"));
  CHECK_THAT(error_of([](Json& j) { j["model"]["merges"].push_back(7); }), Contains("model.merges[2]"));
  CHECK_THAT(error_of([](Json& j) { j["added_tokens"] = Json::array(); }), Contains("no end-of-text token"));
  CHECK_THAT(error_of([](Json& j) { j["added_tokens"][0]["content"] = ""; }), Contains("added_tokens[0].content"));
  CHECK_THAT(error_of([](Json& j) { j["added_tokens"][0]["id"] = 5; }), Contains("taken twice"));
  CHECK_THAT(error_of([](Json& j) { j["added_tokens"].push_back(j["added_tokens"][0]); }), Contains("258"));
  CHECK_THAT(message_of<DataError>([] { parse_tokenizer("{", "t.json"); }), Contains("t.json: not JSON"));
  CHECK_THROWS_AS(parse_tokenizer("[]", "t.json"), DataError);
  CHECK_THROWS_AS(parse_tokenizer("", "t.json"), DataError);
  CHECK_THROWS_AS(load_tokenizer("/nowhere/tokenizer.json"), DataError);
}

TEST_CASE("a truncated or altered tokenizer.json never crashes the parser") {
  const std::string text = small().dump();
  std::mt19937 random(9);
  const std::string whole = parse(small())->hash();
  int refused = 0, same = 0;
  for (int trial = 0; trial < 300; ++trial) {
    std::string altered = text;
    if (trial % 2 == 0)
      altered.resize(random() % text.size());
    else
      altered[random() % text.size()] ^= static_cast<char>(1 << random() % 7);
    try {
      same += parse_tokenizer(altered, "t.json")->hash() == whole ? 1 : 0;
    } catch (const DataError&) {
      ++refused;
    }
  }
  CHECK(same == 0);
  CHECK(refused >= 150);  // every cut, at least
}

TEST_CASE("a saved tokenizer is unchanged when loaded again") {
  const TemporaryFolder dir;
  const auto tokenizer = parse_tokenizer(trained_json("the cat the cat the hat", 262), "t.json");
  tokenizer->save(dir / "tokenizer.json");
  const auto loaded = load_tokenizer((dir / "tokenizer.json").string());
  CHECK(loaded->hash() == tokenizer->hash());
  CHECK(loaded->encode("the cat sat") == tokenizer->encode("the cat sat"));
}
