// Converts text to token ids and back. A tokenizer is immutable, so any number of threads may share one; encoding uses
// Encoder objects, one per thread, because each has scratch memory and a cache of words.
// Byte kinds ("bytes", byte-level BPE, tiktoken) are lossless on arbitrary bytes, valid UTF-8 or not:
// decode(encode(text, SpecialText::as_text)) == text, unless the file itself demands a change of the text (NFC, a
// prefixed space). Character kinds (SentencePiece and its tokenizer.json) read each ill-formed byte as U+FFFD, as
// SentencePiece does, and turn U+2581 into a space; with byte fallback, valid UTF-8 without U+2581 is preserved.
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

// Selects whether the written form of an added token ("<|endoftext|>") inside a text becomes its id or stays ordinary
// text.
enum class SpecialText { as_token, as_text };

// Encodes text. Each thread needs its own encoder. The tokenizer must outlive it.
class Encoder {
 public:
  virtual ~Encoder() = default;
  // Appends the ids of `text` to `ids`. Adds nothing around them (see Tokenizer::prefix_ids() and suffix_ids()).
  virtual void append(std::string_view text, std::vector<int32_t>& ids) = 0;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::unique_ptr<Encoder> make_encoder(SpecialText special) const = 0;
  // Returns the highest id + 1. Ids are dense in the kinds we train; a tokenizer.json may have unused ids (is_id() is
  // false for them).
  virtual int32_t vocab_size() const = 0;
  // Returns the id that ends a document: eos_token of tokenizer_config.json where a folder has one, else the first of
  // <|endoftext|>, <|end_of_text|>, </s>, <eos> that is an added token. SentencePiece prefers the piece eos_id to all
  // of these but <|endoftext|>.
  virtual int32_t eot() const = 0;
  // Returns the id that begins a document, where the tokenizer has such a token.
  virtual std::optional<int32_t> bos() const { return std::nullopt; }
  // Returns the id of the added token with the text `content` ("<|user|>"); nothing when there is none.
  virtual std::optional<int32_t> special_id(std::string_view) const { return std::nullopt; }
  // Returns the text of an added token ("<|user|>"), also of one that decodes to nothing; "" for other tokens.
  virtual std::string_view special_text(int32_t) const { return {}; }
  // The ids that the file demands before and after a single text (a post-processor's <s> and the like).
  virtual std::span<const int32_t> prefix_ids() const { return {}; }
  virtual std::span<const int32_t> suffix_ids() const { return {}; }
  // Returns the bytes of a token inside a text; empty for special tokens. Throws DataError when `id` is not a token.
  virtual std::string_view bytes_of(int32_t id) const = 0;
  // Returns the text (" " or nothing) that encoding puts before a text and that decoding removes once, at the very
  // start.
  virtual std::string_view dummy_prefix() const { return {}; }
  virtual bool is_id(int32_t id) const = 0;
  // Returns the kind for messages: "bytes", "byte-level BPE", "tiktoken BPE", "SentencePiece BPE", "character BPE".
  virtual std::string_view kind() const = 0;

  // Convenience functions for prompts and tests. encode() reads special tokens as tokens by default, as Hugging Face
  // does.
  std::vector<int32_t> encode(std::string_view text, SpecialText special = SpecialText::as_token) const;
  // Returns the concatenated bytes of all tokens, without a leading dummy_prefix(); special tokens contribute nothing.
  std::string decode(std::span<const int32_t> ids) const;

  // The file form: what save() writes, load_tokenizer() reads and a checkpoint carries.
  const std::string& serialized() const { return serialized_; }
  // The XXH3-128 hash of serialized(), 32 hex digits: two tokenizers are the same when their hashes are.
  const std::string& hash() const { return hash_; }
  void save(const std::filesystem::path& path) const;

 protected:
  explicit Tokenizer(std::string serialized);

 private:
  std::string serialized_;
  std::string hash_;
};

// Loads a tokenizer. `name_or_path` is "bytes" (256 byte values and an end-of-text token, id 256) or the path of one of
//   a tokenizer.json (BPE models), a SentencePiece model (BPE, identity normalization), a tiktoken rank file
//   (cl100k, Llama 3, GPT-2), or what save() wrote: the format is detected by the content;
//   a folder: tokenizer.json, else tokenizer.model, else *.tiktoken, else vocab.json with merges.txt; then
//   added_tokens.json and tokenizer_config.json (eos_token, bos_token, added tokens) are read too. A SentencePiece
//   tokenizer.model has bos as its prefix unless add_bos_token is false or another class than Llama's is named.
// Throws DataError naming the file and the field for anything malformed or unsupported, and for files of over 256 MiB.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& name_or_path);
// Parses the content of a tokenizer file; `where` names it in errors.
std::unique_ptr<Tokenizer> parse_tokenizer(std::string text, const std::string& where);

// Returns the tokenizer with further special tokens, which get the ids from vocab_size() on, in this order; all other
// ids stay, and so do eot(), bos() and prefix_ids(). Throws ConfigError for a text that is empty, not UTF-8, given
// twice or a token already, for one that would become bos() where there is none, and for the tokenizer "bytes".
std::unique_ptr<Tokenizer> with_special_tokens(const Tokenizer&, const std::vector<std::string>& contents);

// Decodes token by token for display: the bytes of an incomplete character are held back, so that every returned piece
// is valid UTF-8 wherever the whole text is. Ill-formed bytes are returned as soon as they are known to be ill-formed.
class StreamingDecoder {
 public:
  // at_start = false: the tokens continue earlier text (a prompt), so the dummy prefix is kept.
  explicit StreamingDecoder(const Tokenizer& tokenizer, bool at_start = true)
      : tokenizer_(tokenizer), at_start_(at_start) {}
  // Adds a token and returns the text that is now complete.
  std::string push(int32_t id);
  // Returns the bytes that are still held back at the end of the stream.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  bool at_start_;
  std::string held_;
};

}  // namespace fp
