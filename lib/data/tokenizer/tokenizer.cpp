#include "data/tokenizer/tokenizer.h"

#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "data/tokenizer/byte_tokenizer.h"
#include "data/tokenizer/source.h"
#include "io/filesystem.h"

namespace fp {
namespace {

// Appends `bytes`; removes the dummy prefix from the first text.
void append_text(std::string_view bytes, std::string_view dummy_prefix, bool& at_start, std::string& text) {
  if (bytes.empty()) return;
  if (std::exchange(at_start, false) && bytes.starts_with(dummy_prefix)) bytes.remove_prefix(dummy_prefix.size());
  text += bytes;
}

}  // namespace

Tokenizer::Tokenizer(std::string serialized)
    : serialized_(std::move(serialized)), hash_(hash_bytes(serialized_.data(), serialized_.size())) {}

std::vector<int32_t> Tokenizer::encode(std::string_view text, SpecialText special) const {
  std::vector<int32_t> ids;
  make_encoder(special)->append(text, ids);
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  bool at_start = true;
  for (const int32_t id : ids) append_text(bytes_of(id), dummy_prefix(), at_start, text);
  return text;
}

void Tokenizer::save(const std::filesystem::path& path) const { write_file_atomically(path, serialized_); }

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& name_or_path) {
  if (name_or_path == "bytes") return std::make_unique<ByteTokenizer>();
  if (std::filesystem::is_directory(name_or_path)) return load_tokenizer_folder(name_or_path);
  return parse_tokenizer(read_tokenizer_file(name_or_path), name_or_path);
}

std::unique_ptr<Tokenizer> parse_tokenizer(std::string text, const std::string& where) {
  auto bytes = std::make_unique<ByteTokenizer>();
  if (text == bytes->serialized()) return bytes;
  return make_tokenizer(recognise_tokenizer(std::move(text), where), where);
}

std::string StreamingDecoder::push(int32_t id) {
  append_text(tokenizer_.bytes_of(id), tokenizer_.dummy_prefix(), at_start_, held_);
  size_t ready = 0;
  while (ready < held_.size()) {
    const std::string_view rest = std::string_view(held_).substr(ready);
    if (utf8_incomplete(rest)) break;
    const size_t length = utf8_character(rest);
    ready += length > 0 ? length : 1;
  }
  std::string piece = held_.substr(0, ready);
  held_.erase(0, ready);
  return piece;
}

std::string StreamingDecoder::finish() { return std::exchange(held_, {}); }

}  // namespace fp
