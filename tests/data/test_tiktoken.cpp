// tiktoken rank files and Hugging Face folders.
#include <catch2/catch.hpp>

#include "base/error.h"
#include "data/support.h"
#include "data/tokenizer/base64.h"
#include "data/tokenizer/byte_alphabet.h"

using namespace fp;
using namespace fp::test;
using Catch::Matchers::Contains;
using Ids = std::vector<int32_t>;

namespace {

// The 256 bytes, then all pairs of bytes and as many triples as needed.
std::string ranks(size_t count, const std::vector<std::string>& words = {}) {
  std::vector<std::string> tokens;
  for (size_t b = 0; b < 256; ++b) tokens.emplace_back(1, static_cast<char>(static_cast<uint8_t>(b)));
  tokens.insert(tokens.end(), words.begin(), words.end());
  for (size_t i = 0; tokens.size() < count; ++i)
    tokens.push_back("\x01\x02" + std::to_string(i));  // no merge leads to these
  std::string text;
  for (size_t id = 0; id < tokens.size(); ++id) text += base64_encode(tokens[id]) + " " + std::to_string(id) + "\n";
  return text;
}

Ids ids_of(std::span<const int32_t> ids) { return {ids.begin(), ids.end()}; }

constexpr const char* kConfig = R"({"eos_token": "<|endoftext|>", "added_tokens_decoder": {
  "300": {"content": "<|endoftext|>", "special": true}, "301": {"content": "<|user|>", "special": true}}})";

}  // namespace

TEST_CASE("a rank file joins the neighbours whose concatenation has the lowest rank") {
  const TemporaryFolder dir;
  write_text(dir / "t.tiktoken", ranks(256, {"bc", "ab", "abc", "zzz"}));
  write_text(dir / "tokenizer_config.json", kConfig);
  const auto tokenizer = load_tokenizer(dir.path.string());
  CHECK(tokenizer->kind() == "tiktoken BPE");
  CHECK(tokenizer->encode("abc") == Ids{258});  // a whole piece that is a token
  CHECK(tokenizer->encode("abcd") == Ids{258, 'd'});
  CHECK(tokenizer->encode("zzz") == Ids{259});
  CHECK(tokenizer->encode("zzzz") == Ids{'z', 'z', 'z', 'z'});
  CHECK(tokenizer->encode("bc<|user|>") == Ids{256, 301});
  CHECK(tokenizer->encode("1234") == Ids{'1', '2', '3', '4'});
  CHECK(tokenizer->vocab_size() == 302);
  CHECK(tokenizer->eot() == 300);
  const auto copy = parse_tokenizer(tokenizer->serialized(), "copy");
  CHECK(copy->hash() == tokenizer->hash());
  CHECK(copy->encode("abc<|user|>") == Ids{258, 301});
}

TEST_CASE("special tokens are added behind those of a rank file") {
  const TemporaryFolder dir;
  write_text(dir / "t.tiktoken", ranks(256, {"bc", "ab", "abc", "zzz"}));
  write_text(dir / "tokenizer_config.json", kConfig);
  const auto more = with_special_tokens(*load_tokenizer(dir.path.string()), {"<|tool|>"});
  CHECK(more->encode("bc<|user|><|tool|>") == Ids{256, 301, 302});
  CHECK(parse_tokenizer(more->serialized(), "copy")->vocab_size() == 303);
}

TEST_CASE("special tokens are added behind the usual ones of a bare rank file", "[slow]") {
  const auto tokenizer = parse_tokenizer(ranks(128000, {"user", "\n\n"}), "tokenizer.model");
  const auto more = with_special_tokens(*tokenizer, {"<|endoftext|>", "<s>"});
  CHECK(more->vocab_size() == 128258);
  CHECK(more->eot() == tokenizer->eot());
  CHECK(more->bos() == tokenizer->bos());
  CHECK(ids_of(more->prefix_ids()) == ids_of(tokenizer->prefix_ids()));
  CHECK(more->encode("<|eot_id|><s>user") == Ids{128009, 128257, 256});
  CHECK(parse_tokenizer(more->serialized(), "copy")->hash() == more->hash());
}

TEST_CASE("128000 ranks are recognised as Llama 3") {
  const auto tokenizer = parse_tokenizer(ranks(128000, {"user", "\n\n"}), "tokenizer.model");
  CHECK(tokenizer->vocab_size() == 128256);
  CHECK(tokenizer->eot() == 128001);
  CHECK(tokenizer->bos() == 128000);
  CHECK(ids_of(tokenizer->prefix_ids()) == Ids{128000});
  CHECK(tokenizer->encode("<|start_header_id|>user<|end_header_id|>\n\n<|eot_id|>") ==
        Ids{128006, 256, 128007, 257, 128009});
  CHECK(tokenizer->special_id("<|reserved_special_token_0|>") == 128002);
  CHECK(tokenizer->special_id("<|reserved_special_token_250|>") == 128255);
}

TEST_CASE("100256 ranks are recognised as cl100k and in its folder as phi-3-small") {
  const TemporaryFolder dir;
  const std::string text = ranks(100256);
  write_text(dir / "cl100k_base.tiktoken", text);
  const auto plain = load_tokenizer(dir.path.string());
  CHECK(plain->eot() == 100257);
  CHECK(plain->special_id("<|endofprompt|>") == 100276);
  CHECK_FALSE(plain->special_id("<|user|>").has_value());
  write_text(dir / "tokenizer_config.json", R"({"tokenizer_class": "Phi3SmallTokenizer"})");
  const auto phi = load_tokenizer(dir.path.string());
  CHECK(phi->encode("<|system|><|user|><|assistant|><|end|><|endoftext|>") ==
        Ids{100261, 100262, 100263, 100266, 100257});
}

TEST_CASE("a malformed rank file is refused with its line") {
  const auto error_of = [](const std::string& text) {
    return message_of<DataError>([&] { parse_tokenizer(text, "t.tiktoken"); });
  };
  CHECK_THAT(error_of(ranks(300)), Contains("300 ranks"));
  CHECK_THAT(error_of(ranks(256) + "nonsense\n"), Contains("t.tiktoken:257"));
  CHECK_THAT(error_of(ranks(256) + "Y= 300\n"), Contains("t.tiktoken:257"));
  CHECK_THAT(error_of(ranks(256) + "YWI= 99999999999\n"), Contains("t.tiktoken:257"));
  CHECK_THAT(error_of(ranks(256) + "YWI= 255\n"), Contains("rank 255"));
  CHECK_THAT(error_of(ranks(256) + "YWI= 9000000\n"), Contains("rank 9000000"));
  CHECK_THAT(error_of("YQ== 0\n"), Contains("single byte 0x00"));
  CHECK_THAT(error_of("hello\n"), Contains("not a tokenizer"));
}

TEST_CASE("vocab.json and merges.txt are read as GPT-2's tokenizer") {
  const TemporaryFolder dir;
  const ByteAlphabet alphabet;
  std::string vocab = "{";
  for (size_t id = 0; id < 256; ++id) {
    const std::string name = alphabet.to_printable(std::string(1, static_cast<char>(alphabet.in_order()[id])));
    vocab += fmt::format("\"{}{}\": {}, ", name == "\"" || name == "\\" ? "\\" : "", name, id);
  }
  write_text(dir / "vocab.json", vocab + R"("he": 256, "<|endoftext|>": 257})");
  write_text(dir / "merges.txt", "#version: 0.2\nh e\n");
  const auto tokenizer = load_tokenizer(dir.path.string());
  CHECK(tokenizer->encode("he<|endoftext|>") == Ids{256, 257});
  CHECK(tokenizer->eot() == 257);
  CHECK(parse_tokenizer(tokenizer->serialized(), "copy")->hash() == tokenizer->hash());
  write_text(dir / "added_tokens.json", R"({"<|user|>": 258})");
  CHECK(load_tokenizer(dir.path.string())->encode("<|user|>he<|endoftext|>") == Ids{258, 256, 257});
  write_text(dir / "tokenizer_config.json",
             R"({"add_prefix_space": true, "eos_token": "<|end|>", "added_tokens_decoder":
    {"258": {"content": "<|end|>", "special": true}, "259": {"content": "word", "special": false, "lstrip": true}}})");
  const auto with_config = load_tokenizer(dir.path.string());
  CHECK(with_config->eot() == 258);
  CHECK(with_config->encode("he<|end|>") == Ids{tokenizer->encode(" ")[0], 256, 258});
  CHECK(with_config->encode("he  word").back() == 259);
  write_text(dir / "tokenizer_config.json", "{}");
  write_text(dir / "merges.txt", "#version: 0.2\nh e\nhe\n");
  CHECK_THAT(message_of<DataError>([&] { load_tokenizer(dir.path.string()); }), Contains("merges.txt:3"));
}

TEST_CASE("a folder's config names the token that ends a document") {
  const TemporaryFolder dir;
  CHECK_THAT(message_of<DataError>([&] { load_tokenizer(dir.path.string()); }), Contains("holds no tokenizer"));
  const std::string json = trained_json("the cat the cat the hat", 262);
  write_text(dir / "tokenizer.json", json);
  CHECK(load_tokenizer(dir.path.string())->serialized() == json);
  write_text(dir / "tokenizer_config.json", R"({"eos_token": "<|endoftext|>", "bos_token": "<|endoftext|>"})");
  CHECK(load_tokenizer(dir.path.string())->serialized() == json);
  write_text(dir / "tokenizer_config.json", R"({"eos_token": "<|other|>"})");
  CHECK_THAT(message_of<DataError>([&] { load_tokenizer(dir.path.string()); }), Contains("<|other|>"));
}
