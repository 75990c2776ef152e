// Normalizers and pre-tokenizers as steps over text, and the translation of Oniguruma's regular expressions.
#include <catch2/catch.hpp>

#include "base/error.h"
#include "data/support.h"
#include "data/tokenizer/oniguruma.h"
#include "data/tokenizer/text_steps.h"

using namespace fp;
using namespace fp::test;
using Strings = std::vector<std::string>;
using Catch::Matchers::Contains;

namespace {

Strings run(const std::vector<TextStep>& steps, std::string_view text, bool at_start = true) {
  Strings pieces;
  StepRunner(steps).run(text, at_start, [&](std::string_view piece, bool) { pieces.emplace_back(piece); });
  return pieces;
}

Strings cut(std::string_view text, const std::string& pattern, TextStep::Matches matches, bool invert = false) {
  TextStep step = split_step(std::make_shared<Regex>(translate_oniguruma(pattern)));
  step.matches = matches;
  step.invert = invert;
  return run({step}, text);
}

TextStep step_of(TextStep::Kind kind) {
  TextStep step;
  step.kind = kind;
  return step;
}

bool matches(const std::string& pattern, const std::string& text) {
  const Regex regex(translate_oniguruma(pattern));
  const auto match = RegexMatcher(regex).find(text, 0);
  return match && match->begin == 0 && match->end == text.size();
}

std::string refusal(const std::string& pattern) {
  return message_of<ConfigError>([&] { translate_oniguruma(pattern); });
}

}  // namespace

TEST_CASE("a split removes, isolates or merges its matches as configured") {
  using M = TextStep::Matches;
  const std::string text = "the-final--countdown-";
  CHECK(cut(text, "-", M::removed) == Strings{"the", "final", "countdown"});
  CHECK(cut(text, "-", M::isolated) == Strings{"the", "-", "final", "-", "-", "countdown", "-"});
  CHECK(cut(text, "-", M::merged_with_previous) == Strings{"the-", "final-", "-", "countdown-"});
  CHECK(cut(text, "-", M::merged_with_next) == Strings{"the", "-final", "-", "-countdown", "-"});
  CHECK(cut(text, "-", M::contiguous) == Strings{"the", "-", "final", "--", "countdown", "-"});
  CHECK(cut(text, "[a-z]+", M::removed, true) == Strings{"the", "final", "countdown"});
  CHECK(cut("--", "-", M::merged_with_previous) == Strings{"-", "-"});
}

TEST_CASE("steps run in order and a literal is not interpreted as a pattern") {
  TextStep dots = replace_step(".", "--");
  TextStep split = split_step(nullptr);
  split.literal = "\u2581";
  split.matches = TextStep::Matches::merged_with_next;
  CHECK(run({dots, replace_step(" ", "\u2581"), split}, "a.b  c") == Strings{"a--b", "\u2581", "\u2581c"});
  CHECK(run({}, "abc") == Strings{"abc"});
  CHECK(run({prepend_step("_", TextStep::Prepend::always)}, "") == Strings{});
}

TEST_CASE("a prefix is prepended always, unless present, or only at the start") {
  const auto with = [](TextStep::Prepend when, std::string_view text, bool at_start) {
    return run({prepend_step(" ", when)}, text, at_start).at(0);
  };
  CHECK(with(TextStep::Prepend::always, " a", false) == "  a");
  CHECK(with(TextStep::Prepend::unless_there, " a", true) == " a");
  CHECK(with(TextStep::Prepend::unless_there, "a", false) == " a");
  CHECK(with(TextStep::Prepend::at_start_unless_there, "a", true) == " a");
  CHECK(with(TextStep::Prepend::at_start_unless_there, "a", false) == "a");
}

TEST_CASE("NFC composes characters and collapsing leaves single spaces") {
  const std::vector<TextStep> nfc = {step_of(TextStep::Kind::nfc)};
  CHECK(run(nfc, "e\u0301 a\u0323\u0308 \u2126") == Strings{"\u00E9 \u1EA1\u0308 \u03A9"});
  CHECK(run(nfc, "\u1100\u1161\u11A8") == Strings{"\uAC01"});
  const std::vector<TextStep> collapse = {step_of(TextStep::Kind::collapse_spaces)};
  CHECK(run(collapse, "  a   b \u2581 ") == Strings{"a b"});
  CHECK(run(collapse, "  \u2581a\n") == Strings{"\u2581a\n"});
  CHECK(run(collapse, "   ") == Strings{});
}

TEST_CASE("Oniguruma's classes and escapes are translated to PCRE2") {
  CHECK(matches(R"(\s)", "\u0085"));
  CHECK_FALSE(matches(R"(\s)", "\u180E"));
  CHECK(matches(R"([^\s\p{L}]+)", "\u180E1"));
  CHECK(matches(R"(\w+)", "a\u0301_9"));
  CHECK(matches(R"(\w+)", "\u00B2\u2160\u24B6"));
  CHECK_FALSE(matches(R"(\w)", "\u2074"));  // a number, but no decimal digit
  CHECK(matches(R"(\W)", "\u2074"));
  CHECK(matches(R"(\h+)", "9aF"));
  CHECK(matches(R"([\u4e00-\u9fa5]+)", "\u4E1C"));
  CHECK(matches(R"((?i:'s))", "'\u017F"));
  CHECK(matches(R"(a{2}{)", "aa{"));
  CHECK(matches(R"(\p{Han})", "\u4E1C"));
  CHECK_FALSE(matches(R"(\p{Han})", "\u3001"));  // of Han's extensions only
  CHECK(matches("^b$", "b"));
  CHECK(matches(R"([]a]+)", "]a"));
}

TEST_CASE("Oniguruma syntax without a PCRE2 equivalent is refused with its position") {
  CHECK_THAT(refusal(R"(\p{N}{1,3}+)"), Contains("character 11: '+' after {n,m}"));
  CHECK_THAT(refusal("a{2}?"), Contains("'?' after {n}"));
  CHECK_THAT(refusal("a{,2}"), Contains("{0,n}"));
  CHECK_THAT(refusal("[a&&b]"), Contains("&&"));
  CHECK_THAT(refusal("[[:alpha:]]"), Contains("POSIX"));
  CHECK_THAT(refusal(R"(\bword)"), Contains("\\b"));
  CHECK_THAT(refusal(R"([\W])"), Contains("\\W inside a class"));
  CHECK_THAT(refusal("(?m:.)"), Contains("options 'm'"));
  CHECK_THAT(refusal("(?i:ss)"), Contains("(?i"));
  CHECK_THAT(refusal("\\"), Contains("lone backslash"));
  CHECK_THAT(refusal("\\pL"), Contains("braces"));
}
