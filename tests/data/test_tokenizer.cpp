// Tokenizers: the pieces of GPT-2's pattern, its byte alphabet, encoding against a naive reference, and exact round
// trips.
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parallel.h"
#include "base/utf8.h"
#include "data/support.h"
#include "data/tokenizer/bpe_tokenizer.h"
#include "data/tokenizer/byte_alphabet.h"
#include "data/tokenizer/byte_tokenizer.h"
#include "data/tokenizer/pretokenizer.h"

using namespace fp;
using namespace fp::test;

namespace {

using Strings = std::vector<std::string>;

Strings pieces_of(std::string_view text) {
  static const Regex pattern(kGpt2Pattern);
  PieceSplitter splitter(&pattern);
  Strings pieces;
  splitter.for_each(text, [&](std::string_view piece) { pieces.emplace_back(piece); });
  return pieces;
}

// GPT-2's pattern written by hand, for ASCII.
size_t match_length(std::string_view s) {
  const auto is_space = [](char c) { return std::strchr(" \t\n\r\v\f", c) != nullptr && c != '\0'; };
  const auto kind = [&](char c) { return is_space(c) ? 0 : std::isalpha(c) ? 1 : std::isdigit(c) ? 2 : 3; };
  for (const std::string_view contraction : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (s.starts_with(contraction)) return contraction.size();
  const size_t lead = s[0] == ' ' ? 1 : 0;
  if (lead < s.size() && kind(s[lead]) != 0) {
    size_t end = lead;
    while (end < s.size() && kind(s[end]) == kind(s[lead])) ++end;
    return end;
  }
  size_t run = 0;
  while (run < s.size() && is_space(s[run])) ++run;
  return run < s.size() && run > 1 ? run - 1 : run;
}

// Byte-pair encoding, exactly as it is defined.
std::vector<int32_t> naive_encode(const TokenizerDefinition& d, std::string_view text) {
  std::map<std::string, int32_t> ids;
  for (size_t id = 0; id + 1 < d.tokens.size(); ++id) ids[*d.tokens[id]] = static_cast<int32_t>(id);
  std::vector<int32_t> result;
  while (!text.empty()) {
    const size_t length = match_length(text);
    std::vector<int32_t> word;
    for (const char c : text.substr(0, length)) word.push_back(ids.at(std::string(1, c)));
    for (bool merged = true; merged;) {
      merged = false;
      for (const Merge& merge : d.rules.merges) {
        for (size_t i = 0; i + 1 < word.size() && !merged; ++i) {
          if (TokenPair{word[i], word[i + 1]} != merge.pair) continue;
          word[i] = merge.id;
          word.erase(word.begin() + static_cast<int64_t>(i) + 1);
          merged = true;
        }
        if (merged) break;
      }
    }
    result.insert(result.end(), word.begin(), word.end());
    text.remove_prefix(length);
  }
  return result;
}

const Tokenizer& trained() {
  static const auto tokenizer = [] {
    std::mt19937 random(1);
    return parse_tokenizer(trained_json(random_ascii(random, 20000), 320), "trained");
  }();
  return *tokenizer;
}

}  // namespace

TEST_CASE("GPT-2's pattern splits text as published") {
  CHECK(pieces_of("Hello world's 12 cats, don't!") ==
        Strings{"Hello", " world", "'s", " 12", " cats", ",", " don", "'t", "!"});
  CHECK(pieces_of("we'll I'M they've") == Strings{"we", "'ll", " I", "'", "M", " they", "'ve"});
  // A run of n blanks before a word gives n-1 of them; the last one goes with the word if it is a space.
  CHECK(pieces_of("a   b") == Strings{"a", "  ", " b"});
  CHECK(pieces_of("a \n b") == Strings{"a", " \n", " b"});
  CHECK(pieces_of("a\n\nb") == Strings{"a", "\n", "\n", "b"});
  CHECK(pieces_of("a\tb") == Strings{"a", "\t", "b"});
  CHECK(pieces_of("a   ") == Strings{"a", "   "});
  CHECK(pieces_of("abc123_x") == Strings{"abc", "123", "_", "x"});
  CHECK(pieces_of("").empty());
}

TEST_CASE("GPT-2's pattern uses Unicode's classes") {
  CHECK(pieces_of("größe 东京") == Strings{"größe", " 东京"});
  CHECK(pieces_of("x²½ ١٢") == Strings{"x", "²½", " ١٢"});
  CHECK(pieces_of("e\u0301") == Strings{"e", "\u0301"});  // a combining mark is no letter
  CHECK(pieces_of("a\u00A0\u2003b") == Strings{"a", "\u00A0", "\u2003", "b"});
  CHECK(pieces_of("a\u0085b") == Strings{"a", "\u0085", "b"});
  CHECK(pieces_of("-\u180E-") == Strings{"-\u180E-"});  // no white space since Unicode 6.3
}

TEST_CASE("ill-formed UTF-8 forms pieces of its own") {
  CHECK(pieces_of("ab\xFF\xFE"
                  "cd") == Strings{"ab", "\xFF\xFE", "cd"});
  CHECK(pieces_of("\xC3") == Strings{"\xC3"});
  CHECK(pieces_of("x\xE2\x82 y") == Strings{"x", "\xE2\x82", " y"});
  CHECK(pieces_of("\xED\xA0\x80") == Strings{"\xED\xA0\x80"});  // a surrogate
}

TEST_CASE("the byte alphabet equals GPT-2's") {
  const ByteAlphabet alphabet;
  CHECK(alphabet.to_printable(" ") == "\u0120");
  CHECK(alphabet.to_printable("\n") == "\u010A");
  CHECK(alphabet.to_printable(std::string(1, '\0')) == "\u0100");
  CHECK(alphabet.to_printable("A~!") == "A~!");
  CHECK(alphabet.to_printable("\xAD") == "\u0143");  // the last of the 68
  for (int b = 0; b < 256; ++b) {
    const std::string byte(1, static_cast<char>(static_cast<uint8_t>(b)));
    CHECK(alphabet.from_printable(alphabet.to_printable(byte)) == byte);
  }
  CHECK(alphabet.in_order()[0] == '!');
  CHECK(alphabet.in_order()[255] == 0xAD);
  CHECK_FALSE(alphabet.from_printable(" ").has_value());
  CHECK_FALSE(alphabet.from_printable("\u4E1C").has_value());
}

TEST_CASE("encoding equals the naive definition on random text") {
  const auto& definition = dynamic_cast<const BpeTokenizer&>(trained()).definition();
  std::mt19937 random(2);
  const auto encoder = trained().make_encoder(SpecialText::as_text);
  for (int trial = 0; trial < 200; ++trial) {
    const std::string text = random_ascii(random, random() % 200);
    std::vector<int32_t> ids;
    encoder->append(text, ids);
    CHECK(ids == naive_encode(definition, text));
  }
}

TEST_CASE("encoding of a long word equals the naive definition") {
  const auto& definition = dynamic_cast<const BpeTokenizer&>(trained()).definition();
  std::mt19937 random(3);
  std::string word;
  while (word.size() < 400) word += "abehlotn"[random() % 8];
  CHECK(trained().encode(word) == naive_encode(definition, word));
  CHECK(trained().decode(trained().encode(std::string(100000, 'a'))) == std::string(100000, 'a'));
}

TEST_CASE("arbitrary bytes survive encoding and decoding") {
  std::mt19937 random(4);
  for (const Tokenizer* tokenizer : {&trained(), static_cast<const Tokenizer*>(load_tokenizer("bytes").release())}) {
    const std::unique_ptr<const Tokenizer> owned(tokenizer == &trained() ? nullptr : tokenizer);
    for (int trial = 0; trial < 200; ++trial) {
      const std::string text =
          random_bytes(random, random() % 100) + random_ascii(random, random() % 50) + "<|endoftext|>\xC3";
      CHECK(tokenizer->decode(tokenizer->encode(text, SpecialText::as_text)) == text);
    }
  }
}

TEST_CASE("the byte tokenizer's ids are the byte values") {
  const auto bytes = load_tokenizer("bytes");
  CHECK(bytes->vocab_size() == 257);
  CHECK(bytes->eot() == 256);
  CHECK(bytes->encode("A\xFF") == std::vector<int32_t>{65, 255});
  CHECK(bytes->bytes_of(256).empty());
  CHECK_THROWS_AS(bytes->bytes_of(257), DataError);
  CHECK_THROWS_AS(bytes->bytes_of(-1), DataError);
  CHECK(parse_tokenizer(bytes->serialized(), "copy")->hash() == bytes->hash());
}

TEST_CASE("special tokens in text are read as tokens or as text, as requested") {
  const int32_t eot = trained().eot();
  CHECK(eot == trained().vocab_size() - 1);
  const auto as_token = trained().encode("the<|endoftext|>the");
  CHECK(std::count(as_token.begin(), as_token.end(), eot) == 1);
  const auto the = trained().encode("the");
  auto expected = the;
  expected.push_back(eot);
  expected.insert(expected.end(), the.begin(), the.end());
  CHECK(as_token == expected);
  const auto as_text = trained().encode("the<|endoftext|>the", SpecialText::as_text);
  CHECK(std::count(as_text.begin(), as_text.end(), eot) == 0);
  CHECK(trained().decode(as_text) == "the<|endoftext|>the");
  CHECK(trained().decode(as_token) == "thethe");
}

TEST_CASE("streaming decoding holds back incomplete characters only") {
  const auto bytes = load_tokenizer("bytes");
  const auto stream = [&](const std::string& text) {
    StreamingDecoder decoder(*bytes);
    Strings pieces;
    for (const int32_t id : bytes->encode(text)) pieces.push_back(decoder.push(id));
    pieces.push_back(decoder.finish());
    return pieces;
  };
  CHECK(stream("a\u00E9") == Strings{"a", "", "\u00E9", ""});
  CHECK(stream("\u20AC!") == Strings{"", "", "\u20AC", "!", ""});
  CHECK(stream("\U0001F600") == Strings{"", "", "", "\U0001F600", ""});
  CHECK(stream("\xFFz") == Strings{"\xFF", "z", ""});        // can never become a character
  CHECK(stream("\xE2z") == Strings{"", "\xE2z", ""});        // turned out not to be one
  CHECK(stream("\xE2\x82") == Strings{"", "", "\xE2\x82"});  // the stream ended in the middle
  std::mt19937 random(5);
  const std::string noise = random_bytes(random, 2000);
  std::string joined;
  for (const std::string& piece : stream(noise)) joined += piece;
  CHECK(joined == noise);
}

TEST_CASE("encoders of one tokenizer work concurrently") {
  std::mt19937 random(6);
  const std::string text = random_ascii(random, 20000);
  const auto expected = trained().encode(text);
  set_threads(4);
  std::atomic<int> wrong = 0;
  parallel([&](int, int) {
    if (trained().encode(text) != expected) ++wrong;
  });
  set_threads(0);
  CHECK(wrong == 0);
}

TEST_CASE("UTF-8 is accepted as well formed exactly as Unicode defines") {
  for (char32_t c :
       {U'\0', U'\x7F', U'\x80', U'\u07FF', U'\u0800', U'\uD7FF', U'\uE000', U'\uFFFF', U'\U00010000', U'\U0010FFFF'}) {
    std::string text;
    utf8_append(c, text);
    CHECK(utf8_character(text) == text.size());
    CHECK(utf8_decode(text) == c);
    for (size_t n = 1; n < text.size(); ++n) {
      CHECK(utf8_character(std::string_view(text).substr(0, n)) == 0);
      CHECK(utf8_incomplete(std::string_view(text).substr(0, n)));
    }
    CHECK_FALSE(utf8_incomplete(text));
  }
  for (const std::string bad : {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
                                "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"})
    CHECK(utf8_character(bad) == 0);
  CHECK(utf8_valid_prefix("0123456789\u00E9\xFF"
                          "abc") == 12);
}

TEST_CASE("a tokenizer is not read from huge files and pipes") {
  const TemporaryFolder dir;
  std::filesystem::create_directory(dir / "folder");
  for (const char* name : {"huge.json", "folder/tokenizer.model"}) {
    write_text(dir / name, "{");
    std::filesystem::resize_file(dir / name, (uint64_t{256} << 20) + 1);  // sparse
  }
  for (const char* name : {"huge.json", "folder"})
    CHECK_THAT(message_of<DataError>([&] { load_tokenizer((dir / name).string()); }),
               Catch::Contains("268435457 bytes, too many for a tokenizer; legal: up to 268435456"));
  REQUIRE(::mkfifo((dir / "pipe").c_str(), 0600) == 0);
  CHECK_THAT(message_of<DataError>([&] { load_tokenizer((dir / "pipe").string()); }),
             Catch::Contains("pipe: is not a regular file"));
  std::filesystem::create_directory(dir / "pipes");
  REQUIRE(::mkfifo((dir / "pipes/tokenizer_config.json").c_str(), 0600) == 0);
  CHECK_THAT(message_of<DataError>([&] { load_tokenizer((dir / "pipes").string()); }),
             Catch::Contains("tokenizer_config.json: is not a regular file"));
}

TEST_CASE("special tokens are added behind the ids of a tokenizer.json, which stays one") {
  const auto tokenizer = parse_tokenizer(trained_json("the cat and the dog and the cat", 266), "t.json");
  const int32_t first = tokenizer->vocab_size();
  const auto more = with_special_tokens(*tokenizer, {"<|tool|>", "</s>"});
  CHECK(nlohmann::json::parse(more->serialized()).at("model").at("type") == "BPE");
  CHECK(more->vocab_size() == first + 2);
  CHECK(more->eot() == tokenizer->eot());
  CHECK(more->special_text(first) == "<|tool|>");
  for (int32_t id = 0; id < first; ++id) CHECK(more->bytes_of(id) == tokenizer->bytes_of(id));
  auto ids = tokenizer->encode("the cat");
  ids.push_back(first + 1);
  CHECK(more->encode("the cat</s>") == ids);
  const auto message = [&](const std::vector<std::string>& tokens) {
    return message_of<ConfigError>([&] { with_special_tokens(*tokenizer, tokens); });
  };
  CHECK(message({"<|endoftext|>"}).find("'<|endoftext|>': it is token ") != std::string::npos);
  CHECK(message({"the"}).find("'the': it is token ") != std::string::npos);
  CHECK(message({"<a>", "<a>"}).find("'<a>' is given twice") != std::string::npos);
  CHECK(message({"<s>"}).find("'<s>': it would begin texts") != std::string::npos);
  CHECK(message({""}).find("not empty") != std::string::npos);
  CHECK(message({"\xFF"}).find("UTF-8") != std::string::npos);
  CHECK_THROWS_AS(with_special_tokens(*load_tokenizer("bytes"), {"<a>"}), ConfigError);
}
