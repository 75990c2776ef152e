// SentencePiece models assembled byte by byte: what is read, what is refused.
#include <catch2/catch.hpp>
#include <cstring>

#include "base/error.h"
#include "data/support.h"
#include "data/tokenizer/bpe_tokenizer.h"
#include "data/tokenizer/wire_format.h"

using namespace fp;
using namespace fp::test;
using Catch::Matchers::Contains;
using Ids = std::vector<int32_t>;

namespace {

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value & 0x7F | 0x80);
  return bytes + static_cast<char>(value);
}
std::string integer(int field, uint64_t value) { return varint(static_cast<uint64_t>(field) << 3) + varint(value); }
std::string bytes(int field, const std::string& value) {
  return varint(static_cast<uint64_t>(field) << 3 | 2) + varint(value.size()) + value;
}
std::string piece(const std::string& text, float score, int type = 1) {
  std::string number(4, '\0');
  std::memcpy(number.data(), &score, 4);
  return bytes(1, bytes(1, text) + varint(2 << 3 | 5) + number + integer(3, static_cast<uint64_t>(type)));
}

// unk, <s>, </s>, then a b c ab bc _ _ab in this order (_ is U+2581); more is appended.
std::string model(const std::string& more = "", const std::string& trainer = "", const std::string& normalizer = "") {
  return piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3) + piece("a", -10) + piece("b", -11) +
         piece("c", -12) + piece("ab", -1) + piece("bc", -1) + piece("\u2581", -13) + piece("\u2581ab", -2) + more +
         bytes(2, integer(3, 2) + trainer) + bytes(3, bytes(1, "identity") + integer(4, 0) + normalizer);
}

std::unique_ptr<Tokenizer> parse_sentencepiece(const std::string& text) { return parse_tokenizer(text, "m.model"); }
Ids as_text(const std::string& model_text, std::string_view text) {
  return parse_sentencepiece(model_text)->encode(text, SpecialText::as_text);
}
std::string sentencepiece_error(const std::string& text) {
  return message_of<DataError>([&] { parse_sentencepiece(text); });
}

}  // namespace

TEST_CASE("a SentencePiece model merges the best-scored pair, leftmost first") {
  const auto tokenizer = parse_sentencepiece(model());
  CHECK(tokenizer->kind() == "SentencePiece BPE");
  CHECK(tokenizer->vocab_size() == 10);
  CHECK(tokenizer->encode("ab") == Ids{9});
  CHECK(tokenizer->encode("abc abc") == Ids{9, 5, 9, 5});
  CHECK(tokenizer->encode("cabc") == Ids{8, 5, 6, 5});  // ab and bc have the same score
  CHECK(tokenizer->encode("") == Ids{});
  CHECK(tokenizer->encode("xyx a") == Ids{8, 0, 8, 3});  // unknown runs are one token
  CHECK(tokenizer->eot() == 2);
  CHECK(tokenizer->bos() == 1);
  CHECK(tokenizer->special_id("</s>") == 2);
  CHECK_FALSE(tokenizer->special_id("ab").has_value());
}

TEST_CASE("decoding removes the dummy prefix once at the start, also when streamed") {
  const auto tokenizer = parse_sentencepiece(model());
  CHECK(tokenizer->decode(Ids{9, 9}) == "ab ab");
  CHECK(tokenizer->decode(Ids{1, 9, 2, 9}) == "ab ab");
  CHECK(tokenizer->decode(Ids{8, 9}) == " ab");
  CHECK(tokenizer->decode(Ids{3, 0, 3}) == "a \u2047 a");
  StreamingDecoder start(*tokenizer), middle(*tokenizer, false);
  CHECK(start.push(9) == "ab");
  CHECK(start.push(9) == " ab");
  CHECK(middle.push(9) == " ab");
}

TEST_CASE("control pieces in a text are read as tokens only on request") {
  CHECK(parse_sentencepiece(model())->encode("a</s>a") == Ids{8, 3, 2, 8, 3});
  CHECK(as_text(model(), "a</s>") == Ids{8, 3, 0});
}

TEST_CASE("the flags of a SentencePiece model are applied") {
  CHECK(as_text(model("", "", integer(3, 0)), "ab ab") == Ids{6, 9});      // no dummy prefix
  CHECK(as_text(model("", "", integer(4, 1)), "  ab  ab ") == Ids{9, 9});  // extra white space removed
  CHECK(as_text(model("", "", integer(5, 0)), "ab") == Ids{0, 6});         // a plain space, which is no piece
  CHECK(as_text(model(), " ab") == Ids{8, 9});
}

TEST_CASE("byte pieces encode unknown characters and ill-formed bytes become U+FFFD") {
  std::string more;
  for (int b = 0; b < 256; ++b) more += piece(fmt::format("<0x{:02X}>", b), 0, 6);
  const auto tokenizer = parse_sentencepiece(model(more, integer(35, 1)));
  CHECK(tokenizer->encode("\u20AC") == Ids{8, 10 + 0xE2, 10 + 0x82, 10 + 0xAC});
  CHECK(tokenizer->encode("\xFF") == tokenizer->encode("\uFFFD"));
  CHECK(tokenizer->decode(tokenizer->encode("a \u20AC\n")) == "a \u20AC\n");
  CHECK(tokenizer->bytes_of(10 + 0xE2) == "\xE2");
  CHECK_THAT(sentencepiece_error(model(more)), Contains("byte_fallback"));
  CHECK_THAT(sentencepiece_error(model("", integer(35, 1))), Contains("byte has no piece"));
}

TEST_CASE("user-defined pieces are matched first and unused ones are split last") {
  CHECK(as_text(model(piece("bca", 0, 4)), "abca") == Ids{8, 3, 10});
  CHECK(as_text(model(piece("abc", -0.5, 5) + piece("\u2581abc", -0.6f)), "abc c") == Ids{11, 8, 5});
  CHECK(as_text(model(piece("abc", -0.5, 5)), "cabc") == Ids{8, 5, 6, 5});
  CHECK(as_text(model(piece("x", 0, 5)), "ax") == Ids{8, 3, 0});  // a character cannot be taken apart: unknown
}

TEST_CASE("a SentencePiece tokenizer round-trips through its serialized form") {
  const TemporaryFolder dir;
  write_text(dir / "tokenizer.model", model());
  write_text(dir / "tokenizer_config.json",
             R"({"tokenizer_class": "LlamaTokenizer", "eos_token": {"content": "<|end|>"},
    "added_tokens_decoder": {"11": {"content": "<|end|>", "rstrip": true, "special": true}, "2": {"content": "</s>"}}})");
  const auto tokenizer = load_tokenizer(dir.path.string());
  CHECK(tokenizer->eot() == 11);
  CHECK(Ids(tokenizer->prefix_ids().begin(), tokenizer->prefix_ids().end()) == Ids{1});
  CHECK(tokenizer->encode("ab<|end|> \nab") == Ids{9, 11, 9});
  CHECK_FALSE(tokenizer->is_id(10));
  CHECK(tokenizer->bytes_of(2) == "</s>");  // the config says it is not special
  const auto copy = parse_tokenizer(tokenizer->serialized(), "copy");
  CHECK(copy->hash() == tokenizer->hash());
  CHECK(copy->eot() == 11);
  CHECK(copy->encode("ab<|end|> \nab") == Ids{9, 11, 9});
}

TEST_CASE("special tokens are added behind the pieces of a SentencePiece model") {
  const auto tokenizer = parse_sentencepiece(model());
  const auto more = with_special_tokens(*tokenizer, {"<|user|>", "<|endoftext|>"});
  CHECK(more->vocab_size() == tokenizer->vocab_size() + 2);
  CHECK(more->eot() == tokenizer->eot());
  CHECK(more->encode("ab<|user|>ab") == Ids{9, 10, 9});
  const auto copy = parse_tokenizer(more->serialized(), "copy");
  CHECK(copy->hash() == more->hash());
  CHECK(copy->special_id("<|endoftext|>") == 11);
}

TEST_CASE("a folder with a SentencePiece model has bos as prefix unless its config says otherwise") {
  const auto prefix = [](const std::string& config, const std::string& text = model()) {
    const TemporaryFolder dir;
    write_text(dir / "tokenizer.model", text);
    if (!config.empty()) write_text(dir / "tokenizer_config.json", config);
    const auto tokenizer = load_tokenizer(dir.path.string());
    return Ids(tokenizer->prefix_ids().begin(), tokenizer->prefix_ids().end());
  };
  CHECK(prefix("") == Ids{1});
  CHECK(prefix("{}") == Ids{1});
  CHECK(prefix(R"({"add_bos_token": false})") == Ids{});
  CHECK(prefix(R"({"tokenizer_class": "LlamaTokenizer", "add_bos_token": false})") == Ids{});
  CHECK(prefix(R"({"tokenizer_class": "T5Tokenizer"})") == Ids{});
  CHECK(prefix("", model("", integer(41, uint64_t{0} - 1))) == Ids{1});  // by its name
  std::string nameless = model();
  nameless[nameless.find("<s>") + 1] = 'x';
  CHECK(prefix("", nameless) == Ids{});
}

TEST_CASE("unsupported SentencePiece models are refused with the field") {
  CHECK_THAT(sentencepiece_error(model("", integer(3, 1))), Contains("trainer_spec.model_type"));
  CHECK_THAT(sentencepiece_error(model("", "", bytes(2, "map"))), Contains("precompiled_charsmap"));
  CHECK_THAT(sentencepiece_error(model("", integer(24, 1))), Contains("treat_whitespace_as_suffix"));
  CHECK_THAT(sentencepiece_error(model(piece("ab", 0))), Contains("\"ab\" occurs twice"));
  CHECK_THAT(sentencepiece_error(model(piece("x", 0, 9))), Contains("type 9"));
  CHECK_THAT(sentencepiece_error(model(piece("\xFF", 0))), Contains("UTF-8"));
  CHECK_THAT(sentencepiece_error(model(piece(std::string(2000, 'x'), 0))), Contains("2000 bytes"));
  CHECK_THAT(sentencepiece_error(model(piece("y", 0, 2))), Contains("second unknown"));
}

TEST_CASE("a truncated SentencePiece model never crashes the parser") {
  const std::string whole = model();
  size_t refused = 0;
  for (size_t n = 0; n < whole.size(); ++n) try {
      parse_sentencepiece(whole.substr(0, n));
    } catch (const DataError&) {
      ++refused;
    }
  CHECK(refused > whole.size() / 2);
}

TEST_CASE("every length in protobuf's wire format is checked") {
  const std::string where = "w";
  const std::string message = integer(1, 300) + bytes(2, "ab");
  WireReader reader(message, where);
  REQUIRE(reader.next());
  CHECK(reader.integer() == 300);
  CHECK_THROWS_AS(reader.bytes(), DataError);
  REQUIRE(reader.next());
  CHECK(reader.bytes() == "ab");
  CHECK_FALSE(reader.next());
  for (const std::string& bad : {std::string("\x0A\x05x"), std::string("\x08"), std::string("\x0B"),
                                 std::string("\x00\x00", 2), "\x08" + std::string(11, '\xFF')}) {
    WireReader broken(bad, where);
    CHECK_THROWS_AS(broken.next(), DataError);
  }
}
