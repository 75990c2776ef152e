// llm.c's evaluation files: parsed exactly, and refused when anything in them is inconsistent.
#include <catch2/catch.hpp>
#include <cstring>

#include "base/error.h"
#include "data/formats/multiple_choice.h"
#include "data/support.h"

using namespace fp;
using namespace fp::test;
using Catch::Matchers::Contains;

namespace {

std::string words(const std::vector<uint16_t>& numbers) {
  std::string bytes(numbers.size() * 2, '\0');
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

std::string file_of(const std::string& examples, int32_t count = 2, int32_t longest = 28) {
  const int32_t head[] = {kMultipleChoiceMagic, 1, count, longest};
  std::string file(reinterpret_cast<const char*>(head), sizeof head);
  file.resize(1024);
  return file + examples;
}

std::vector<MultipleChoice> parse(const std::string& file) {
  return parse_multiple_choice(std::as_bytes(std::span(file)), "eval.bin");
}

std::string error_of(const std::string& file) {
  return message_of<DataError>([&] { parse(file); });
}

const std::vector<uint16_t> kFirst = {65535, 24, 0, 1, 2, 2, 10, 11, 1, 20, 1, 21};
const std::vector<uint16_t> kSecond = {65535, 28, 1, 0, 3, 0, 2, 7, 8, 1, 9, 2, 6, 5};

}  // namespace

TEST_CASE("multiple-choice questions are read with context, completions and label") {
  const auto all = parse(file_of(words(kFirst) + words(kSecond)));
  REQUIRE(all.size() == 2);
  CHECK(all[0].label == 1);
  CHECK(all[0].context == std::vector<int32_t>{10, 11});
  CHECK(all[0].completions == std::vector<std::vector<int32_t>>{{20}, {21}});
  CHECK(all[1].context.empty());
  CHECK(all[1].completions == std::vector<std::vector<int32_t>>{{7, 8}, {9}, {6, 5}});
  const TemporaryFolder dir;
  write_text(dir / "eval.bin", file_of(words(kFirst), 1));
  CHECK(read_multiple_choice(dir / "eval.bin").size() == 1);
}

TEST_CASE("a multiple-choice file that is cut, extended or altered is refused") {
  const std::string good = file_of(words(kFirst) + words(kSecond));
  for (size_t length = 0; length < good.size(); ++length) error_of(good.substr(0, length));
  CHECK_THAT(error_of(good + "x"), Contains("1 bytes after"));
  const auto with = [](size_t at, uint16_t value) {
    auto first = kFirst;
    first[at] = value;
    return file_of(words(first) + words(kSecond));
  };
  CHECK_THAT(error_of(with(0, 1)), Contains("example 0: begins with 1"));
  CHECK_THAT(error_of(with(1, 26)), Contains("has 24 bytes, but states a size of 26"));
  CHECK_THAT(error_of(with(2, 3)), Contains("index 3"));
  CHECK_THAT(error_of(with(3, 2)), Contains("label 2 of 2"));
  CHECK_THAT(error_of(with(4, 1)), Contains("1 completions"));
  CHECK_THAT(error_of(with(5, 60000)), Contains("beyond the end"));
  CHECK_THAT(error_of(with(8, 0)), Contains("completion 0 is empty"));
  CHECK_THAT(error_of(with(9, 65535)), Contains("holds 65535"));
  CHECK_THAT(error_of(file_of(words(kFirst), 0)), Contains("0 examples"));
  CHECK_THAT(error_of(file_of(words(kFirst), 1, 8)), Contains("header's longest"));
}
