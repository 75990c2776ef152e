// The BPE algorithm with the tables of each kind, against results derived by hand.
#include <catch2/catch.hpp>

#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/base64.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/join_table.h"

using namespace fp;
using Ids = std::vector<int32_t>;

namespace {

Ids encode(const BpeRules& rules, std::string_view word) {
  BpeModel::Scratch scratch;
  Ids ids;
  BpeModel(rules).encode(word, scratch, ids);
  return ids;
}

// Characters a = 0, b = 1, c = 2 and U+00E9 = 3; unknown = 9.
BpeRules characters() {
  BpeRules rules;
  rules.symbols = BpeRules::Symbols::characters;
  rules.byte_ids.fill(-1);
  rules.characters = {{U'a', 0}, {U'b', 1}, {U'c', 2}, {U'\u00E9', 3}};
  rules.unknown = 9;
  return rules;
}

}  // namespace

TEST_CASE("lower ranks are merged first and equal ranks from left to right") {
  BpeRules rules = characters();
  rules.merges = {{{0, 1}, 4, 0}, {{1, 2}, 5, 0}};  // ab and bc
  CHECK(encode(rules, "abc") == Ids{4, 2});
  rules.merges[0].rank = 1;
  CHECK(encode(rules, "abc") == Ids{0, 5});
  CHECK(encode(rules, "") == Ids{});
  CHECK(encode(rules, "\u00E9") == Ids{3});
}

TEST_CASE("unknown characters become bytes or the unknown token, fused if configured") {
  BpeRules rules = characters();
  CHECK(encode(rules, "axxb\u20AC") == Ids{0, 9, 9, 1, 9});
  rules.fuse_unknown = true;
  CHECK(encode(rules, "axxb\u20ACx") == Ids{0, 9, 1, 9});
  for (size_t b = 0; b < 256; ++b) rules.byte_ids[b] = 100 + static_cast<int32_t>(b);
  CHECK(encode(rules, "a\u20ACx") == Ids{0, 100 + 0xE2, 100 + 0x82, 100 + 0xAC, 100 + 'x'});
}

TEST_CASE("frozen texts are matched first, longest first, and never merge") {
  BpeRules rules = characters();
  rules.merges = {{{0, 1}, 4, 0}, {{6, 1}, 8, 0}};
  rules.frozen = {{"ca", 6}, {"cab", 7}};
  CHECK(encode(rules, "ab") == Ids{4});
  CHECK(encode(rules, "caab") == Ids{6, 4});
  CHECK(encode(rules, "cabb") == Ids{7, 1});
}

TEST_CASE("unused tokens are merged and split again at the end") {
  BpeRules rules = characters();
  rules.merges = {{{0, 1}, 4, 0}, {{4, 2}, 5, 1}};  // ab, then abc
  rules.unused = {4};
  CHECK(encode(rules, "ab") == Ids{0, 1});
  CHECK(encode(rules, "abc") == Ids{5});
  rules.unused = {4, 5};
  CHECK(encode(rules, "abcab") == Ids{0, 1, 2, 0, 1});
}

TEST_CASE("a word in whole_words is encoded without merges") {
  BpeRules rules = characters();
  rules.whole_words = {{"abc", 5}};
  CHECK(encode(rules, "abc") == Ids{5});
  CHECK(encode(rules, "abca") == Ids{0, 1, 2, 0});
}

TEST_CASE("a table of ranked tokens merges every pair of halves, also characters without a token") {
  const std::vector<RankedToken> tokens = {{"a", 0, 3}, {"b", 1, 4}, {"ab", 2, 0}, {"aba", 3, 1}, {"ax", 4, 2}};
  const auto bytes = join_table(tokens, BpeRules::Symbols::bytes);
  std::vector<std::pair<TokenPair, int32_t>> pairs;
  for (const Merge& m : bytes) pairs.emplace_back(m.pair, m.id);
  CHECK(pairs == std::vector<std::pair<TokenPair, int32_t>>{{{0, 1}, 2}, {{2, 0}, 3}});
  const auto with_characters = join_table(tokens, BpeRules::Symbols::characters);
  REQUIRE(with_characters.size() == 3);
  CHECK(with_characters.back().pair == TokenPair{0, kMaxTokenIds + 'x'});
}

TEST_CASE("added tokens obey lstrip, rstrip and single_word") {
  AddedTokenFinder finder;
  AddedToken left, right, word;
  left.id = 1, left.lstrip = true;
  right.id = 2, right.rstrip = true;
  word.id = 3, word.single_word = true;
  finder.add(left, "<l>");
  finder.add(right, "<r>");
  finder.add(word, "w");
  const auto run = [&](std::string_view text) {
    std::string parts;
    Ids ids;
    finder.around(text, true, ids, [&](std::string_view part, bool at_start) {
      parts += std::string(at_start ? "^" : "") + std::string(part) + "|";
    });
    return std::pair(ids, parts);
  };
  CHECK(run("a \u3000<l> b<r> \n c") == std::pair(Ids{1, 2}, std::string("^a| b|c|")));
  CHECK(run("w ww \u00E9w w") == std::pair(Ids{3, 3}, std::string(" ww \u00E9w |")));
  CHECK(run("<r> <l>x") == std::pair(Ids{2, 1}, std::string("x|")));
  CHECK(run("plain") == std::pair(Ids{}, std::string("^plain|")));
  CHECK(run("") == std::pair(Ids{}, std::string()));
}

TEST_CASE("white space consumed by an added token is not matched again") {
  AddedTokenFinder finder;
  AddedToken line;
  line.id = 1, line.rstrip = true;
  Ids ids;
  finder.add(line, "\n");
  finder.around("a\n\nb", true, ids, [](std::string_view, bool) {});
  CHECK(ids == Ids{1, 1});
  AddedTokenFinder both;
  line.lstrip = true;
  ids.clear();
  both.add(line, "\n");
  both.around("a\n\nb", true, ids, [](std::string_view, bool) {});
  CHECK(ids == Ids{1});
  // White space is looked at once: if each token looked back to the begin of the text, this would take minutes.
  AddedTokenFinder before;
  line.rstrip = false;
  ids.clear();
  before.add(line, "\n");
  before.around(std::string(400'000, '\n'), true, ids, [](std::string_view, bool) {});
  CHECK(ids.size() == 400'000);
}

TEST_CASE("base64 follows RFC 4648") {
  for (const auto& [bytes, text] :
       {std::pair("", ""), {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}}) {
    CHECK(base64_encode(bytes) == text);
    CHECK(base64_decode(text) == std::string(bytes));
  }
  for (const char* bad : {"Z", "Zg=", "Zg", "Zh==", "Z===", "Zm9!", "Zg==Zg==", "===="})
    CHECK_FALSE(base64_decode(bad));
}
