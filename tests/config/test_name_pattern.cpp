#include <catch2/catch.hpp>

#include "base/error.h"
#include "base/philox.h"
#include "config/mapping/name_pattern.h"

namespace fp {
namespace {

using Numbers = NamePattern::Numbers;
using Names = std::vector<std::string>;

std::string pattern_refusal(const std::string& text) {
  try {
    const NamePattern accepted(text);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "accepted";
}

TEST_CASE("a pattern matches exactly the names it describes", "[config][mapping]") {
  const NamePattern p("[model.]layers.{layer}.experts.{expert}.w1");
  CHECK(p.match("model.layers.0.experts.12.w1") == Numbers{{"layer", 0}, {"expert", 12}});
  CHECK(p.match("layers.31.experts.0.w1") == Numbers{{"layer", 31}, {"expert", 0}});
  for (const char* other :
       {"layers.01.experts.0.w1", "layers..experts.0.w1", "layers.1.experts.0.w12", "xlayers.1.experts.0.w1",
        "layers.-1.experts.0.w1", "layers.1.experts.0.w1 ", "", "layers.1234567890.experts.0.w1"}) {
    CAPTURE(other);
    CHECK_FALSE(p.match(other));
  }
  CHECK(p.names({{"layer", 3}, {"expert", 4}}) == Names{"model.layers.3.experts.4.w1", "layers.3.experts.4.w1"});
  CHECK(NamePattern("rank{part}.st").match("rank007.st", NamePattern::Zeros::allowed) == Numbers{{"part", 7}});
  CHECK(NamePattern("w1").match("w1") == Numbers{});
}

TEST_CASE("matching a name that a pattern made returns its numbers", "[config][mapping]") {
  uint64_t state = 1;
  for (const char* text : {"a.{x}.b.{y}", "[pre.]h.{x}.7.{y}", "{x}-{y}"}) {
    const NamePattern p(text);
    for (int i = 0; i < 200; ++i) {
      Numbers numbers;
      for (const std::string& n : p.numbers()) numbers[n] = static_cast<int64_t>(Philox::mix(state++) % 1000000000);
      for (const std::string& name : p.names(numbers)) CHECK(p.match(name) == numbers);
    }
  }
}

TEST_CASE("malformed patterns are refused with the reason", "[config][mapping]") {
  for (const auto& [text, reason] : {std::pair("", "empty"),
                                     {"a.{layer", "not closed"},
                                     {"a.layer}", "not opened"},
                                     {"a.{}", "not the name of a number"},
                                     {"a.{Layer}", "'{Layer}'"},
                                     {"a.{x}.{x}", "{x} occurs twice"},
                                     {"a.{x}{y}", "next to another number or a digit"},
                                     {"a.{x}1", "next to another number or a digit"},
                                     {"a.1{x}", "next to another number or a digit"},
                                     {"a.{x}[1]", "next to another number or a digit"},
                                     {"a[b", "brackets"},
                                     {"a]b[", "brackets"},
                                     {"[a][b]", "brackets"},
                                     {"a[]", "its brackets are empty"},
                                     {"a[.{x}]", "must not contain a number"}}) {
    CAPTURE(text);
    CHECK_THAT(pattern_refusal(text), Catch::Contains(reason) && Catch::Contains("legal: "));
  }
}

TEST_CASE("two patterns overlap if one name matches both", "[config][mapping]") {
  const auto overlap = [](const char* a, const char* b) {
    const bool one = NamePattern(a).overlaps(NamePattern(b)), other = NamePattern(b).overlaps(NamePattern(a));
    CHECK(one == other);
    return one;
  };
  CHECK(overlap("a.{x}.b", "a.{layer}.b"));
  CHECK(overlap("a.{x}.b", "a.0.b"));
  CHECK(overlap("a.{x}.0", "a.0.{y}"));
  CHECK(overlap("[t.]a", "a"));
  CHECK(overlap("[t.]a", "t.[u.]a"));
  CHECK_FALSE(overlap("a.{x}.b", "a.{x}.c"));
  CHECK_FALSE(overlap("a.{x}.1", "a.0.2"));
  CHECK_FALSE(overlap("a.{x}", "a.{x}.b"));
  CHECK_FALSE(overlap("a.1", "a.12"));
  CHECK_FALSE(overlap("[t.]a", "u.a"));
}

}  // namespace
}  // namespace fp
