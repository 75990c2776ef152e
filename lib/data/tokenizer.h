// Text to token ids and back. A tokenizer never changes after it is made, so any number of threads may share one;
// encoding goes through Encoder objects, one per thread, because each keeps scratch memory and a cache of words.
//
// Every kind is lossless on arbitrary bytes, valid UTF-8 or not: decode(encode(text, SpecialText::as_text)) == text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
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
  // Appends the ids of `text` to `ids`. No end-of-text token is added.
  virtual void append(std::string_view text, std::vector<int32_t>& ids) = 0;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::unique_ptr<Encoder> make_encoder(SpecialText special) const = 0;
  // Highest id + 1. Ids are dense in the kinds we train; a tokenizer.json may leave holes (is_id() is false there).
  virtual int32_t vocab_size() const = 0;
  // The id that ends a document.
  virtual int32_t eot() const = 0;
  // The bytes a token stands for; empty for special tokens. DataError when `id` is not a token.
  virtual std::string_view bytes_of(int32_t id) const = 0;
  virtual bool is_id(int32_t id) const = 0;
  // "bytes" or "byte-level BPE".
  virtual std::string_view kind() const = 0;

  // One-off conveniences for prompts and tests. encode() reads special tokens as tokens, as Hugging Face does.
  std::vector<int32_t> encode(std::string_view text, SpecialText special = SpecialText::as_token) const;
  // The bytes of all tokens in a row; special tokens give nothing.
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

// "bytes" (256 byte values and an end-of-text token, id 256) or the path of a tokenizer.json.
// DataError naming the file and the field for anything that is malformed or not supported.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& name_or_path);
// The same from text; `where` names it in errors.
std::unique_ptr<Tokenizer> parse_tokenizer(std::string text, const std::string& where);

// Decodes token by token for display: bytes of a character that is not complete yet are held back, so that every piece
// returned is valid UTF-8 wherever the whole is. Ill-formed bytes are passed through as soon as they are known to be
// so.
class StreamingDecoder {
 public:
  explicit StreamingDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  std::string push(int32_t id);
  // What was held back at the end of the stream.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  std::string held_;
};

}  // namespace fp
