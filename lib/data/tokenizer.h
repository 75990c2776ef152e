// Text to token ids and back. A tokenizer never changes after it is made, so any number of threads may share one;
// encoding goes through Encoder objects, one per thread, because each keeps scratch memory and a cache of words.
//
// Byte kinds ("bytes", byte-level BPE, tiktoken) are lossless on arbitrary bytes, valid UTF-8 or not:
// decode(encode(text, SpecialText::as_text)) == text, unless the file itself asks for a change of the text (NFC, a
// prefixed space). Character kinds (SentencePiece and its tokenizer.json) read each ill-formed byte as U+FFFD, as
// SentencePiece does, and turn U+2581 into a space; valid UTF-8 without U+2581 survives where byte fallback is on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fp {

// Whether the written form of an added token ("<|endoftext|>") inside a text becomes its one id or stays ordinary text.
enum class SpecialText { as_token, as_text };

// Encodes on one thread. Must not outlive its tokenizer.
class Encoder {
 public:
  virtual ~Encoder() = default;
  // Appends the ids of `text` to `ids`. Nothing is added around them (Tokenizer::prefix_ids() and suffix_ids()).
  virtual void append(std::string_view text, std::vector<int32_t>& ids) = 0;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::unique_ptr<Encoder> make_encoder(SpecialText special) const = 0;
  // Highest id + 1. Ids are dense in the kinds we train; a tokenizer.json may leave holes (is_id() is false there).
  virtual int32_t vocab_size() const = 0;
  // The id that ends a document: eos_token of tokenizer_config.json where a folder has one, else the first of
  // <|endoftext|>, <|end_of_text|>, </s>, <eos> that is an added token (SentencePiece: else the piece eos_id).
  virtual int32_t eot() const = 0;
  // The id that begins one, where the tokenizer has such a token.
  virtual std::optional<int32_t> bos() const { return std::nullopt; }
  // The id of the added token written `content` ("<|user|>"); nothing when there is none.
  virtual std::optional<int32_t> special_id(std::string_view) const { return std::nullopt; }
  // What the file says to put before and after a single text (a post-processor's <s> and the like).
  virtual std::span<const int32_t> prefix_ids() const { return {}; }
  virtual std::span<const int32_t> suffix_ids() const { return {}; }
  // The bytes a token stands for inside a text; empty for special tokens. DataError when `id` is not a token.
  virtual std::string_view bytes_of(int32_t id) const = 0;
  // Text that encoding put in front and decoding drops once, at the very start: " " or nothing.
  virtual std::string_view dummy_prefix() const { return {}; }
  virtual bool is_id(int32_t id) const = 0;
  // For messages: "bytes", "byte-level BPE", "tiktoken BPE", "SentencePiece BPE", "character BPE".
  virtual std::string_view kind() const = 0;

  // One-off conveniences for prompts and tests. encode() reads special tokens as tokens, as Hugging Face does.
  std::vector<int32_t> encode(std::string_view text, SpecialText special = SpecialText::as_token) const;
  // The bytes of all tokens in a row, without dummy_prefix() in front; special tokens give nothing.
  std::string decode(std::span<const int32_t> ids) const;

  // The file form: what save() writes, load_tokenizer() reads and a checkpoint carries.
  const std::string& serialized() const { return serialized_; }
  // XXH3-128 of serialized(), 32 hex digits: two tokenizers are the same when their hashes are.
  const std::string& hash() const { return hash_; }
  void save(const std::filesystem::path& path) const;

 protected:
  explicit Tokenizer(std::string serialized);

 private:
  std::string serialized_;
  std::string hash_;
};

// "bytes" (256 byte values and an end-of-text token, id 256) or the path of one of
//   a tokenizer.json (BPE models), a SentencePiece model (BPE, identity normalization), a tiktoken rank file
//   (cl100k, Llama 3, GPT-2), what save() wrote: told apart by their content;
//   a folder: tokenizer.json, else tokenizer.model, else *.tiktoken, else vocab.json with merges.txt; then
//   added_tokens.json and tokenizer_config.json (eos_token, bos_token, added tokens) are read too. A SentencePiece
//   tokenizer.model has bos as its prefix unless add_bos_token is false or another class than Llama's is named.
// DataError naming the file and the field for anything that is malformed or not supported.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& name_or_path);
// The same from the content of a file; `where` names it in errors.
std::unique_ptr<Tokenizer> parse_tokenizer(std::string text, const std::string& where);

// Decodes token by token for display: bytes of a character that is not complete yet are held back, so that every piece
// returned is valid UTF-8 wherever the whole is. Ill-formed bytes are passed through as soon as they are known to be
// so.
class StreamingDecoder {
 public:
  // `at_start` is false when the tokens go on from earlier text (a prompt): then the dummy prefix is kept.
  explicit StreamingDecoder(const Tokenizer& tokenizer, bool at_start = true)
      : tokenizer_(tokenizer), at_start_(at_start) {}
  std::string push(int32_t id);
  // What was held back at the end of the stream.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  bool at_start_;
  std::string held_;
};

}  // namespace fp
