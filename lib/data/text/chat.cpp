#include "data/text/chat.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"

namespace fp {
namespace {

// The characters that Python's str.strip() removes, as the template's `trim` does.
bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

std::string_view trim(std::string_view text) {
  size_t begin = text.size(), end = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_character(text.substr(at));
    const size_t next = at + std::max<size_t>(length, 1);
    if (length == 0 || !is_space(utf8_decode(text.substr(at, length)))) {
      begin = std::min(begin, at);
      end = next;
    }
    at = next;
  }
  return begin < end ? text.substr(begin, end - begin) : std::string_view();
}

std::string llama_header(const std::string& role) { return "<|start_header_id|>" + role + "<|end_header_id|>\n\n"; }
std::string phi_header(const std::string& role) { return "<|" + role + "|>\n"; }

}  // namespace

ChatEncoder::ChatEncoder(const Tokenizer& tokenizer, const ChatOptions& options)
    : tokenizer_(tokenizer),
      options_(options),
      llama_(options.format == "llama3"),
      tokens_(tokenizer.make_encoder(SpecialText::as_token)),
      text_(tokenizer.make_encoder(SpecialText::as_text)) {
  if (!llama_ && options.format != "phi3" && options.format != "phi3-small")
    throw ConfigError(fmt::format("chat template {}: legal values: phi3, phi3-small, llama3", options.format));
  std::vector<std::string> needed = {"<|system|>", "<|user|>", "<|assistant|>", "<|end|>"};
  if (options.format == "phi3-small") needed.push_back("<|endoftext|>");
  if (llama_) needed = {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"};
  for (const std::string& token : needed)
    if (!tokenizer.special_id(token))
      throw DataError(fmt::format("the tokenizer has no special token {}, which the chat template {} needs", token,
                                  options.format));
  tokens_->append(llama_ ? llama_header("assistant") : phi_header("assistant"), header_);
  const int32_t last = *tokenizer.special_id(llama_ ? "<|end_header_id|>" : "<|assistant|>");
  header_control_ = static_cast<size_t>(std::find(header_.begin(), header_.end(), last) - header_.begin()) + 1;
  end_ = *tokenizer.special_id(end_of_message(options.format));
}

std::vector<ChatEncoder::Part> ChatEncoder::render(std::span<const Message> messages) const {
  std::vector<Part> parts;
  if (llama_) parts.push_back({"<|begin_of_text|>", false});
  if (options_.format == "phi3-small") parts.push_back({"<|endoftext|>", false});
  for (const Message& m : messages) {
    parts.push_back({llama_ ? llama_header(m.role) : phi_header(m.role), false});
    parts.push_back({llama_ ? std::string(trim(m.content)) : m.content, true});
    parts.push_back({llama_ ? "<|eot_id|>" : "<|end|>\n", false});
  }
  return parts;
}

bool ChatEncoder::holds_special_text(const std::string& content) {
  std::vector<int32_t> as_tokens, as_text;
  tokens_->append(content, as_tokens);
  text_->append(content, as_text);
  return as_tokens != as_text;
}

void ChatEncoder::encode(std::span<const Part> parts, bool apart, std::vector<int32_t>& ids) {
  std::string whole;
  for (const Part& part : parts) {
    whole += part.text;
    if (apart) (part.content ? text_ : tokens_)->append(part.text, ids);
  }
  if (!apart) tokens_->append(whole, ids);
}

void ChatEncoder::mark_answers(std::span<const int32_t> ids, Answers answers, std::vector<uint8_t>& loss_mask) const {
  const auto header = std::span(header_);
  const auto begin = static_cast<std::ptrdiff_t>(loss_mask.size());
  for (size_t i = 0; i < ids.size();) {
    const auto rest = ids.subspan(i);
    const auto same = std::mismatch(header.begin(), header.end(), rest.begin(), rest.end()).first - header.begin();
    const bool answer = static_cast<size_t>(same) >= header_control_;
    if (answer && answers == Answers::last) std::fill(loss_mask.begin() + begin, loss_mask.end(), 0);
    const size_t before = answer ? static_cast<size_t>(same) : 1;
    loss_mask.insert(loss_mask.end(), before, 0);
    i += before;
    for (bool inside = answer; inside && i < ids.size(); ++i) {
      loss_mask.push_back(1);
      inside = ids[i] != end_;
    }
  }
}

void ChatEncoder::append(std::span<const Message> messages, Answers answers, const std::string& where,
                         std::vector<int32_t>& ids, std::vector<uint8_t>& loss_mask) {
  const auto parts = render(messages);
  bool apart = false;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (!holds_special_text(messages[i].content)) continue;
    if (!options_.allow_special_text)
      throw DataError(
          fmt::format("{}: message {} ({}) contains the text of a special token; --allow-special-text "
                      "encodes it as ordinary text",
                      where, i, messages[i].role));
    apart = true;
  }
  const size_t begin = ids.size();
  encode(parts, apart, ids);
  const auto added = std::span(ids).subspan(begin);
  const auto ends = static_cast<size_t>(std::count(added.begin(), added.end(), end_));
  FP_CHECK(ends == messages.size(), "{}: {} messages became {}", where, messages.size(), ends);
  mark_answers(added, answers, loss_mask);
  ids.push_back(tokenizer_.eot());
  loss_mask.push_back(0);
}

}  // namespace fp
