// The subset of Jinja: its results (those of Jinja 3.1 with the settings of transformers), its limits, its refusals.
#include <catch2/catch.hpp>

#include "base/error.h"
#include "data/support.h"
#include "data/text/jinja.h"

using namespace fp;
using namespace fp::test;
using Catch::Matchers::Contains;

namespace {

std::string rendered(const std::string& text) {
  const nlohmann::json variables = {
      {"s", "Text"}, {"n", 3}, {"list", {"a", "b", "c"}}, {"dict", {{"k", "v"}}}, {"yes", true}};
  return JinjaTemplate(text, "t").render(variables);
}

std::string refused(const std::string& text) {
  return message_of<DataError>([&] { rendered(text); });
}

}  // namespace

TEST_CASE("Jinja expressions have Python's values") {
  for (const auto& [expression, value] : std::vector<std::pair<std::string, std::string>>{
           {"s + '!' ~ n", "Text!3"},
           {"1 + 2 * 3 - 4 // 3 % 2", "6"},
           {"-7 // 2", "-4"},
           {"-7 % 3", "2"},
           {"(1 + 2) * n", "9"},
           {"list[0] + list[-1]", "ac"},
           {"list[1:] | join('-')", "b-c"},
           {"list[::-1] | join", "cba"},
           {"list[:-1] | length", "2"},
           {"list[5] is defined", "False"},
           {"dict.k ~ dict['k'] ~ dict.absent", "vv"},
           {"dict.get('x', 'd')", "d"},
           {"'k' in dict and 'ex' in s and 'z' not in list", "True"},
           {"'a' if n > 2 else 'b'", "a"},
           {"'a' if not yes", ""},
           {"none or 'x'", "x"},
           {"nothing | default('d')", "d"},
           {"'' | default('d', true)", "d"},
           {"nothing is not defined", "True"},
           {"s is string and n is number and none is none", "True"},
           {"'  x ' | trim ~ '|' ~ 'xyx'.strip('x') ~ ' a'.lstrip()", "x|ya"},
           {"'a,b'.split(',')[1] ~ s.startswith('Te') ~ s | upper ~ s.replace('T', 't')", "bTrueTEXTtext"},
           {"\"it's\" ' ok\\n'", "it's ok\n"},
           {"[1, 2] + [3] == [1, 2, 3]", "True"},
           {"{'a': [1]}['a'][0]", "1"},
           {"range(3) | length", "3"},
           {"n == 3.0", "True"}}) {
    INFO(expression);
    CHECK(rendered("{{ " + expression + " }}") == value);
  }
}

TEST_CASE("Jinja statements loop, choose and set as Jinja does") {
  CHECK(rendered("{% for x in list %}{{ loop.index }}{{ x }}{% if not loop.last %},{% endif %}{% endfor %}") ==
        "1a,2b,3c");
  CHECK(rendered("{% for x in list if x != 'b' %}{{ loop.index0 }}{{ x }}{% else %}none{% endfor %}") == "0a1c");
  CHECK(rendered("{% for x in [] %}x{% else %}none{% endfor %}") == "none");
  CHECK(rendered("{% for k, v in dict.items() %}{{ k }}={{ v }}{% endfor %}") == "k=v");
  CHECK(rendered("{% if n == 1 %}1{% elif n == 3 %}3{% else %}?{% endif %}") == "3");
  CHECK(rendered("{% set x = 1 %}{% for y in list %}{% set x = 2 %}{% endfor %}{{ x }}") == "1");  // a loop has a scope
  CHECK(rendered("{% set ns = namespace(x=1) %}{% for y in list %}{% set ns.x = ns.x + 1 %}{% endfor %}{{ ns.x }}") ==
        "4");
  CHECK(rendered("{% if true %}{% set x = 2 %}{% endif %}{{ x }}") == "2");
}

TEST_CASE("white space around Jinja tags is trimmed as transformers asks for") {
  CHECK(rendered("a\n  {% if true %}\nb\n  {% endif %}\nc\n") == "a\nb\nc");
  CHECK(rendered("a  {{- 'b' -}}  \n c") == "abc");
  CHECK(rendered("a {%- if true -%} b {%- endif %} c") == "ab c");
  CHECK(rendered("a\n{# note #}\nb {# x #} c") == "a\nb  c");
  CHECK(rendered("a {% if true %} b{% endif %}") == "a  b");
  CHECK(rendered("{{ 'a' }}\nb") == "a\nb");
}

TEST_CASE("whatever is outside the subset of Jinja is refused by name and line") {
  CHECK_THAT(refused("x\n{{ s | reverse }}"), Contains("t: chat_template, line 2: the filter 'reverse'"));
  CHECK_THAT(refused("{{ s is even }}"), Contains("the test 'even'"));
  CHECK_THAT(refused("{{ s.format(1) }}"), Contains("the method 'format'"));
  CHECK_THAT(refused("{{ strftime_now('%d') }}"), Contains("the function 'strftime_now'"));
  CHECK_THAT(refused("{% include 'x' %}"), Contains("the statement 'include'"));
  CHECK_THAT(refused("{{ a.b.c }}"), Contains("'b' of an undefined value"));
  CHECK_THAT(refused("{{ s + n }}"), Contains("'+' of a text and a number"));
  CHECK_THAT(refused("{% if s %}"), Contains("no {% endif %}"));
  CHECK_THAT(refused("{% endfor %}"), Contains("the statement 'endfor'"));
  CHECK_THAT(refused("{{ 'x }}"), Contains("a text is not closed"));
  CHECK_THAT(refused("{{ s"), Contains("a tag is not closed"));
  CHECK_THAT(refused("{{ s ? }}"), Contains("'?' is not expected"));
  CHECK_THAT(refused("{{ s s }}"), Contains("'s'"));
  CHECK_THROWS_AS(rendered("{{ raise_exception('No.') }}"), JinjaRefusal);
}

TEST_CASE("a Jinja template takes bounded time", "[slow]") {
  const std::string loop = "{% for x in range(1000) %}";
  CHECK_THAT(refused(loop + loop + loop + "x{% endfor %}{% endfor %}{% endfor %}"), Contains("too many steps"));
}

TEST_CASE("a Jinja template takes bounded memory and stack") {
  CHECK_THAT(refused("{{ " + std::string(1000, '(') + " }}"), Contains("too much nesting"));
  CHECK_THAT(refused("{{ " + std::string(1000, '-') + "1 }}"), Contains("too much nesting"));
  std::string ifs;
  for (int i = 0; i < 200; ++i) ifs += "{% if true %}";
  CHECK_THAT(refused(ifs), Contains("too much nesting"));
  const std::string grow =
      "{% set ns = namespace(x='aa') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}";
  CHECK_THAT(refused(grow), Contains("too large"));
  CHECK_THAT(
      refused("{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}"),
      Contains("too large"));
}
