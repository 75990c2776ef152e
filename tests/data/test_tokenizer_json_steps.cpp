// The components of tokenizer.json beside the model, on a small Llama-style file: characters, byte fallback, a
// template.
#include <catch2/catch.hpp>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/support.h"
#include "data/tokenizer/tokenizer_json_steps.h"

using namespace fp;
using namespace fp::test;
using Catch::Matchers::Contains;
using Ids = std::vector<int32_t>;

namespace {

const std::string kMark = "\u2581";

// 0 unk, 1 <s>, 2 </s>, a b ab _ _ab = 3..7 (_ is U+2581), byte tokens from 8 on.
Json llama() {
  Json vocab = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}, {"a", 3}, {"b", 4}, {"ab", 5}, {kMark, 6}, {kMark + "ab", 7}};
  for (int b = 0; b < 256; ++b) vocab[fallback_token_of(b)] = 8 + b;
  const Json normalizers = {{{"type", "Prepend"}, {"prepend", kMark}},
                            {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kMark}}};
  const Json decoders = {{{"type", "Replace"}, {"pattern", {{"String", kMark}}}, {"content", " "}},
                         {{"type", "ByteFallback"}},
                         {{"type", "Fuse"}},
                         {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}};
  const Json single = {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
                       {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}};
  return {{"added_tokens",
           {{{"id", 1}, {"content", "<s>"}, {"special", true}},
            {{"id", 2}, {"content", "</s>"}, {"special", true}, {"rstrip", true}}}},
          {"normalizer", {{"type", "Sequence"}, {"normalizers", normalizers}}},
          {"pre_tokenizer", nullptr},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single", single},
            {"pair", Json::array()},
            {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {1}}, {"tokens", {"<s>"}}}}}}}},
          {"decoder", {{"type", "Sequence"}, {"decoders", decoders}}},
          {"model",
           {{"type", "BPE"},
            {"unk_token", "<unk>"},
            {"fuse_unk", true},
            {"byte_fallback", true},
            {"vocab", vocab},
            {"merges", {"a b", Json::array({kMark, "ab"})}}}}};
}

std::unique_ptr<Tokenizer> parse_steps(const Json& json) { return parse_tokenizer(json.dump(), "t.json"); }

std::string error_of_steps(const std::function<void(Json&)>& change) {
  Json json = llama();
  change(json);
  return message_of<DataError>([&] { parse_steps(json); });
}

}  // namespace

TEST_CASE("a Llama-style tokenizer.json is read") {
  const auto tokenizer = parse_steps(llama());
  CHECK(tokenizer->kind() == "character BPE");
  CHECK(tokenizer->encode("ab ab") == Ids{7, 7});
  CHECK(tokenizer->encode("\u00E9") == Ids{6, 8 + 0xC3, 8 + 0xA9});
  CHECK(tokenizer->encode("ab</s> \n ab") == Ids{7, 2, 7});  // each segment gets the prefix
  CHECK(tokenizer->decode(Ids{1, 7, 7, 8 + 0xC3}) == "ab ab\xC3");
  CHECK(tokenizer->bos() == 1);
  CHECK(tokenizer->eot() == 2);
  CHECK(std::vector(tokenizer->prefix_ids().begin(), tokenizer->prefix_ids().end()) == Ids{1});
  CHECK(tokenizer->suffix_ids().empty());
}

TEST_CASE("without byte fallback unknown characters become unk, fused where the file says so") {
  Json json = llama();
  json["model"]["byte_fallback"] = false;
  CHECK(parse_steps(json)->encode("xya") == Ids{6, 0, 3});
  json["model"]["fuse_unk"] = false;
  CHECK(parse_steps(json)->encode("xya") == Ids{6, 0, 0, 3});
  json["model"]["unk_token"] = nullptr;
  CHECK_THAT(message_of<DataError>([&] { parse_steps(json); }), Contains("model.unk_token"));
}

TEST_CASE("Metaspace prepends its mark always, first or never, in both versions of the format") {
  Json json = llama();
  json["normalizer"] = nullptr;
  const auto with = [&](const Json& settings) {
    Json metaspace = {{"type", "Metaspace"}, {"replacement", kMark}};
    metaspace.update(settings);
    json["pre_tokenizer"] = metaspace;
    return parse_steps(json)->encode("ab</s>ab");
  };
  CHECK(with(Json::object()) == Ids{7, 2, 7});
  CHECK(with({{"prepend_scheme", "first"}}) == Ids{7, 2, 5});
  CHECK(with({{"prepend_scheme", "never"}}) == Ids{5, 2, 5});
  CHECK(with({{"add_prefix_space", false}}) == Ids{5, 2, 5});
  CHECK(with({{"add_prefix_space", true}, {"split", false}}) == Ids{7, 2, 7});
  CHECK_THROWS_AS(with({{"prepend_scheme", "first"}, {"add_prefix_space", false}}), DataError);
  CHECK_THROWS_AS(with({{"prepend_scheme", "last"}}), DataError);
}

TEST_CASE("a token with an inner mark disables splitting at marks without changing the result") {
  Json json = llama();
  json["model"]["vocab"]["b" + kMark] = 264;
  json["model"]["merges"].insert(json["model"]["merges"].begin(), Json::array({"b", kMark}));
  CHECK(parse_steps(json)->encode("ab a") == Ids{6, 3, 264, 3});
}

TEST_CASE("unsupported settings of a component are refused by name") {
  CHECK_THAT(error_of_steps([](Json& j) {
               j["normalizer"]["normalizers"][1]["pattern"] = {{"Regex", "a*"}};
             }),
             Contains("normalizer.normalizers[1].pattern.Regex"));
  CHECK_THAT(error_of_steps([](Json& j) {
               j["normalizer"]["normalizers"][1]["pattern"] = {{"Regex", "("}};
             }),
             Contains("regular expression"));
  CHECK_THAT(error_of_steps([](Json& j) { j["normalizer"]["normalizers"][1]["content"] = std::string(100, 'x'); }),
             Contains("64 times"));
  CHECK_THAT(error_of_steps([](Json& j) { j["decoder"]["decoders"][3]["start"] = 2; }),
             Contains("decoder.decoders[3].start"));
  CHECK_THAT(error_of_steps([](Json& j) { j["decoder"] = {{"type", "WordPiece"}}; }), Contains("decoder.type"));
  CHECK_THAT(error_of_steps([](Json& j) {
               j["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", kMark}, {"prepend_scheme", "first"}};
             }),
             Contains("beside the normalizer Prepend"));
  CHECK_THAT(error_of_steps([](Json& j) { j["post_processor"]["single"].erase(1); }),
             Contains("post_processor.single"));
  CHECK_THAT(error_of_steps([](Json& j) { j["post_processor"]["special_tokens"]["<s>"]["ids"] = {999}; }),
             Contains("post_processor"));
  CHECK_THAT(error_of_steps([](Json& j) { j["model"]["vocab"].erase("<0x41>"); }), Contains("model.byte_fallback"));
  CHECK_THAT(error_of_steps([](Json& j) { j["model"]["vocab"]["x"] = 16000000; }), Contains("ids below"));
  CHECK_THAT(error_of_steps([](Json& j) {
               j["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"String", "a"}}}, {"behavior", "Kept"}};
             }),
             Contains("pre_tokenizer.behavior"));
  CHECK_THAT(error_of_steps([](Json& j) {
               Json nested = nullptr;
               for (int i = 0; i < 12; ++i) nested = {{"type", "Sequence"}, {"normalizers", Json::array({nested})}};
               j["normalizer"] = nested;
             }),
             Contains("nested"));
}
