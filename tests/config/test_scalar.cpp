#include <catch2/catch.hpp>

#include "config/yaml/scalar.h"

namespace fp {

TEST_CASE("integers are exact or refused", "[config]") {
  const auto value = [](const char* text) {
    const IntegerText i = parse_integer(text);
    INFO(text << ": " << i.error);
    REQUIRE(i.error.empty());
    return i.negative ? -static_cast<__int128>(i.magnitude) : static_cast<__int128>(i.magnitude);
  };
  CHECK((value("0") == 0 && value("-0") == 0 && value("+7") == 7 && value("-12") == -12));
  CHECK((value("1e6") == 1000000 && value("2.5e3") == 2500 && value("1500e-2") == 15 && value("1.0") == 1));
  CHECK((value("1_000_000") == 1000000 && value("0e99999999999") == 0 && value("0.000e-5") == 0));
  CHECK(value("18446744073709551615") == static_cast<__int128>(UINT64_MAX));
  CHECK(value("1844674407370955161.5e1") == static_cast<__int128>(UINT64_MAX));

  for (const char* text : {"1.5", "1e-1", "25e-1"}) CHECK(parse_integer(text).error == "is not a whole number");
  for (const char* text : {"18446744073709551616", "1e20", "1e99999999999999999999", "9e19", "123456789012345678901"})
    CHECK(parse_integer(text).error == "does not fit in 64 bits");
  for (const char* text : {"0x10", "0o17", "0b1"}) CHECK(parse_integer(text).error == "must be written in decimal");
  for (const char* text : {"007", "00", "-01"})
    CHECK(parse_integer(text).error == "must be written without leading zeros (octal or decimal?)");
  for (const char* text : {"", "-", "1__0", "_1", "1_", "1 0", "1e", "e1", ".", "1.2.3", "12a", "--1"})
    CHECK(parse_integer(text).error == "is not a number");
  for (const char* text : {".inf", "-.INF", ".nan", "nan", "inf"}) CHECK(parse_integer(text).error == "must be finite");
}

TEST_CASE("reals are parsed to the nearest double or refused", "[config]") {
  CHECK(parse_real("0.1").value == 0.1);
  CHECK(parse_real("-1_000.5e-3").value == -1.0005);
  CHECK(parse_real(".5").value == 0.5);
  CHECK(parse_real("5.").value == 5.0);
  CHECK(parse_real("2.2250738585072014e-308").value == 2.2250738585072014e-308);
  CHECK(parse_real("1e999").error == "is too large for a double");
  CHECK(parse_real("1e-999").error == "is too small for a double");
  CHECK(parse_real(".inf").error == "must be finite");
  CHECK(parse_real("1e5x").error == "is not a number");
}

TEST_CASE("plain scalars are classified as in YAML 1.2", "[config]") {
  for (const char* text : {"", "~", "null", "NULL"}) CHECK(classify_plain(text) == PlainKind::null);
  for (const char* text : {"true", "False"}) CHECK(classify_plain(text) == PlainKind::boolean);
  for (const char* text : {"1", "-2.5", "1e3", "0x1f", "007", "1_0", ".5"})
    CHECK(classify_plain(text) == PlainKind::number);
  for (const char* text : {".nan", "-.inf"}) CHECK(classify_plain(text) == PlainKind::nonfinite);
  for (const char* text : {"yes", "on", "1.2.3", "a", "-", ".", "1:30", "2024-01-01"})
    CHECK(classify_plain(text) == PlainKind::text);
}

}  // namespace fp
