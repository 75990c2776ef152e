#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "base/shown.h"

using namespace fp;

TEST_CASE("a value in a message is shortened and kept on one line") {
  CHECK(shown("plain, \u00e9 and \u6f22") == "plain, \u00e9 and \u6f22");
  CHECK(shown("a\tb\nc") == "a\\x09b\\x0ac");
  const std::string longest(60, 'x'), shorter(59, 'x');
  CHECK(shown(longest) == longest);
  CHECK(shown(longest + "x") == fmt::format("{}...", longest));
  CHECK(shown(shorter + "\u00e9y") == fmt::format("{}\u00e9...", shorter));
  CHECK(shown("abcdef", 3) == "abc...");
  CHECK(shown("").empty());
}

TEST_CASE("text that a terminal would act on is escaped") {
  CHECK(shown("\x1b[31mred\x1b]0;title\a") == "\\x1b[31mred\\x1b]0;title\\x07");
  CHECK(printable("\x1b[2J\r\x7f") == "\\x1b[2J\\x0d\\x7f");
  CHECK(printable("lines\n\tand tabs\n") == "lines\n\tand tabs\n");
  CHECK(printable("\u009b31m \u0085") == "\\u009b31m \\u0085");        // the same controls as single characters
  CHECK(printable("\u202Egnp.exe\u2066") == "\\u202egnp.exe\\u2066");  // reads backwards
  CHECK(printable("\x9b"
                  "31m \xC3(") == "\\x9b31m \\xc3(");  // not UTF-8
  CHECK(printable("\u00a0\u00e9\u6f22\U0001F600") == "\u00a0\u00e9\u6f22\U0001F600");
  CHECK(printable(std::string(1000, 'x')) == std::string(1000, 'x'));
}
