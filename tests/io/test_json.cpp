// Tests of the JSON reader and its limits.
#include <catch2/catch.hpp>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "io/json_numbers.h"
#include "support/temporary_folder.h"

using namespace fp;
using Catch::Matchers::Contains;

namespace {

std::string repeated(const std::string& piece, size_t times) {
  std::string text;
  for (size_t i = 0; i < times; ++i) text += piece;
  return text;
}

// Returns the message of the refusal, which both parsers must agree on.
std::string json_refusal(const std::string& text, const JsonLimits& limits = {}) {
  const auto message = [&](auto parse) -> std::string {
    try {
      parse(text, "f.json", limits);
    } catch (const JsonError& e) {
      CHECK(e.code() == ExitCode::bad_data);
      return e.what();
    }
    return "not refused";
  };
  const std::string ordered = message(parse_ordered_json);
  CHECK_THAT(ordered, Contains("f.json: "));
  return message(parse_json);
}

}  // namespace

TEST_CASE("every kind of JSON value is parsed") {
  const std::string text = R"({"z": [1, -2, 18446744073709551615, 1.5e3, true, false, null, "\u00e9\n\ud83d\ude00"],
                               "a": {"": {}, "b": []}, "m": ""})";
  const nlohmann::json j = parse_json(text, "f");
  CHECK(j == nlohmann::json::parse(text));
  CHECK(j["z"][2].get<uint64_t>() == UINT64_MAX);
  const nlohmann::ordered_json ordered = parse_ordered_json(text, "f");
  CHECK(ordered == nlohmann::ordered_json::parse(text));
  CHECK(ordered.dump().starts_with(R"({"z":)"));
  for (const char* root : {"7", "\"x\"", "null", "true", "[]", "{}", " [1]\n", "\xEF\xBB\xBF[1]"})
    CHECK(parse_json(root, "f") == nlohmann::json::parse(root));
}

TEST_CASE("nesting is refused before it overflows the stack") {
  for (const auto& [open, close] : {std::pair{"[", "]"}, std::pair{"{\"a\":", "}"}}) {
    const auto nested = [&](size_t depth) { return repeated(open, depth) + "1" + repeated(close, depth); };
    const nlohmann::json deepest = parse_json(nested(64), "f");
    CHECK(nlohmann::json(deepest).dump() == nested(64));
    CHECK_THAT(json_refusal(nested(65)), Contains("65 nested lists and objects; legal: up to 64"));
    CHECK_THAT(json_refusal(nested(4), {.depth = 3}), Contains("4 nested lists and objects; legal: up to 3"));
    for (const size_t depth : {150'000, 2'000'000}) {
      CHECK_THAT(json_refusal(nested(depth)), Contains("65 nested lists and objects"));
      CHECK_THAT(json_refusal(repeated(open, depth)), Contains("65 nested lists and objects"));
    }
  }
  CHECK_THAT(json_refusal("{\"a\": [\n [\n" + repeated("[", 200)),
             Contains("f.json: line 3, column 62: 65 nested lists"));
  // Adjacent lists are not nested.
  CHECK(parse_json("[" + repeated("[[]],", 1000) + "[]]", "f").size() == 1001);
}

TEST_CASE("JSON text over its limit of bytes is refused") {
  CHECK(parse_json("[1,2]", "f", {.bytes = 5}).size() == 2);
  CHECK(json_refusal("[1,2] ", {.bytes = 5}) == "f.json: 6 bytes of JSON; legal: up to 5");
  // A file that is too large is not read at all: this one would fill any memory.
  const test::TemporaryFolder folder;
  std::ofstream(folder / "large.json") << "[]";
  std::filesystem::resize_file(folder / "large.json", uintmax_t{1} << 40);
  for (const auto& read : {std::function<void()>([&] { read_json(folder / "large.json"); }),
                           std::function<void()>([&] { read_json_file(folder / "large.json"); })})
    CHECK_THROWS_WITH(read(), Contains("large.json: 1099511627776 bytes of JSON; legal: up to 67108864"));
  std::filesystem::resize_file(folder / "large.json", 2);
  CHECK(read_json(folder / "large.json") == nlohmann::json::array());
  CHECK_THROWS_AS(read_json(folder / "missing.json"), DataError);
}

TEST_CASE("a duplicate key of an object is refused") {
  CHECK(parse_json(R"({"a":1,"b":2,"a":3})", "f.json", {.keys_once = false}) == nlohmann::json{{"a", 3}, {"b", 2}});
  CHECK(json_refusal(R"({"a":1,"b":2,"a":3})") == "f.json: column 16: duplicate key \"a\"");
  CHECK_THAT(json_refusal(R"([{"b": {"x": 1, "x": 1}}])"), Contains("duplicate key \"x\""));
  CHECK_THAT(json_refusal(R"({"a":1,"\u0061":1})"), Contains("duplicate key \"a\""));
  CHECK_THAT(json_refusal("{\"\\u001b[2J\":1,\"\\u001b[2J\":1}"), Contains("key \"\\x1b[2J\""));
  CHECK(parse_json(R"([{"a":1},{"a":{"a":2}}])", "f").size() == 2);
}

TEST_CASE("text that is not JSON is refused with line and column") {
  CHECK_THAT(json_refusal(""), Contains("f.json: not JSON: column 1: "));
  CHECK_THAT(json_refusal("{\"a\": nul}"), Contains("f.json: not JSON: column 10: "));
  CHECK_THAT(json_refusal("{\n \"a\": 1,\n}"), Contains("f.json: not JSON: line 3, column 1: "));
  CHECK_THAT(json_refusal("[1] 2"), Contains("not JSON: column 5"));
  CHECK_THAT(json_refusal("[1e999]"), Contains("number overflow"));
  for (const char* bad :
       {"[1,]", "{1:2}", "[\"\xFF\"]", "[\"\\ud800\"]", "[01]", "[nan]", "'a'", "[1] // x", "\xEF\xBB"})
    CHECK_THAT(json_refusal(bad), Contains("not JSON"));
  // The quoted part of the text is short and escaped.
  const std::string message = json_refusal("[\"" + std::string(100'000, 'x') + "\x1b");
  CHECK(message.size() < 300);
  CHECK(message.find('\x1b') == std::string::npos);
}

TEST_CASE("an integer of a foreign file is never wrapped or rounded") {
  const auto refusal = [](const char* text, auto least, auto most) {
    try {
      integer_from(nlohmann::json::parse(text), "size", least, most);
    } catch (const JsonError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK(integer_from<uint64_t>(nlohmann::json::parse("18446744073709551615"), "size") == UINT64_MAX);
  CHECK(integer_from<int64_t>(nlohmann::json::parse("-9223372036854775808"), "size") == INT64_MIN);
  CHECK(refusal("3", 0, 3).empty());
  CHECK(refusal("4", 0, 3) == "size is 4; legal: a whole number from 0 to 3");
  for (const char* bad : {"3.1e43", "1.0", "1e0", "-1", "18446744073709551615", "true", "null", "\"1\"", "[1]", "{}"})
    CHECK_THAT(refusal(bad, int64_t{0}, INT64_MAX), Contains("size is "));
  CHECK_THAT(refusal("-1", uint64_t{0}, UINT64_MAX), Contains("size is -1"));
}
