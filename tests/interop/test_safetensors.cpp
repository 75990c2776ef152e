#include <catch2/catch.hpp>
#include <cstring>

#include "base/error.h"
#include "interop/safetensors.h"

using namespace fp;

namespace {

std::string file_with(const std::string& json) {
  const uint64_t n = json.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &n, 8);
  return bytes + json;
}

// Parses a header that is followed by `data` bytes.
SafetensorsHeader parse(const std::string& json, uint64_t data) {
  const std::string bytes = file_with(json);
  return parse_safetensors(bytes, bytes.size() + data, "model.safetensors");
}

void refused(const std::string& json, uint64_t data, const std::string& because) {
  INFO(json);
  try {
    parse(json, data);
    FAIL("was accepted");
  } catch (const DataError& e) {
    const std::string said = e.what();
    CHECK(said.starts_with("model.safetensors: "));
    CHECK(said.find(because) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("a safetensors header is parsed", "[safetensors]") {
  const SafetensorsHeader h = parse(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
      R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"none":{"dtype":"I64","shape":[0,7],"data_offsets":[16,16]}}  )",
      16);
  CHECK(h.metadata.at("format") == "pt");
  CHECK(h.tensors.at("b") == SafetensorsEntry{"BF16", {2, 3}, 4, 16});
  CHECK(h.tensors.at("a").shape.empty());
  CHECK(h.tensors.size() == 3);
}

TEST_CASE("a written header is read back, with wide types first and aligned", "[safetensors]") {
  SafetensorsHeader h;
  h.metadata["format"] = "pt";
  h.tensors = {{"x", {"BF16", {3}, 0, 0}}, {"z", {"F32", {2, 2}, 0, 0}}, {"y", {"F32", {}, 0, 0}}};
  const std::string bytes = lay_out_safetensors(h);
  CHECK(bytes.size() == h.data_start);
  CHECK(bytes.size() % 8 == 0);
  CHECK(h.tensors.at("y").begin == 0);
  CHECK(h.tensors.at("z").begin == 4);
  CHECK(h.tensors.at("x").begin == 20);
  CHECK(parse_safetensors(bytes, bytes.size() + 26, "x") == h);
}

TEST_CASE("malformed safetensors headers are refused with the reason", "[safetensors]") {
  const std::string a = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":)";
  refused(a + "[0,4]}}", 8, "need 8");
  refused(a + "[0,8]}}", 4, "lie outside");
  refused(a + "[0,8]}}", 12, "end at byte 8 of 12");
  refused(a + "[4,12]}}", 12, "hole");
  refused(a + "[0,8]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[7,9]}}", 9, "overlap");
  refused(a + "[0,8]}," + a.substr(1) + "[0,8]}}", 8, "duplicate key \"a\"");
  refused(a + "[-8,0]}}", 8, "not a whole number");
  refused(a + "[8,0]}}", 8, "lie outside");
  refused(R"({"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})", 8, "F33");
  refused(R"({"a":{"dtype":"F64","shape":[4294967296,4294967296],"data_offsets":[0,8]}})", 8, "too many elements");
  refused(R"({"a":{"dtype":"F64","shape":[1.5],"data_offsets":[0,8]}})", 8, "not a whole number");
  refused(R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", 8, "needs dtype, shape");
  refused(R"({"__metadata__":{"x":1}})", 0, "is not text");
  refused("[]", 0, "does not begin");
  refused("{\"a\":" + std::string(500, '['), 0, "5 nested lists and objects");
  refused("{\"a\":" + std::string(50, '[') + std::string(50, ']') + "}", 0, "5 nested lists and objects");
  refused("{\"a\":", 0, "header: not JSON: column 5");
}

TEST_CASE("a header longer than the file is refused before it is read", "[safetensors]") {
  std::string bytes(8, '\xff');
  CHECK_THROWS_AS(parse_safetensors(bytes, uint64_t{1} << 60, "x"), DataError);
  CHECK_THROWS_AS(parse_safetensors("abc", 3, "x"), DataError);
  const std::string cut = file_with("{}").substr(0, 9);
  CHECK_THROWS_AS(parse_safetensors(cut, cut.size(), "x"), DataError);
}
