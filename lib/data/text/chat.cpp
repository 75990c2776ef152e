#include "data/text/chat.h"

#include <algorithm>

#include "base/error.h"
#include "base/shown.h"
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

// The written forms of special tokens in texts of templates: <|user|>.
std::vector<std::string> special_tokens_in(const std::string& text) {
  std::vector<std::string> found;
  for (size_t begin = 0; (begin = text.find("<|", begin)) != std::string::npos; ++begin) {
    const size_t end = text.find("|>", begin + 2);
    const std::string token = text.substr(begin, end == std::string::npos ? end : end + 2 - begin);
    if (end != std::string::npos && token.find_first_of(" \n<", 1) == std::string::npos) found.push_back(token);
  }
  return found;
}

}  // namespace

ChatEncoder::ChatEncoder(const Tokenizer& tokenizer, const ChatOptions& options)
    : tokenizer_(tokenizer),
      options_(options),
      template_(find_chat_template(options.format)),
      tokens_(tokenizer.make_encoder(SpecialText::as_token)),
      text_(tokenizer.make_encoder(SpecialText::as_text)) {
  require_special_tokens();
  std::vector<Part> parts;
  add_template(template_.assistant.after, parts);
  std::vector<int32_t> after;
  encode(parts, false, after);
  if (after.empty() || (after[0] != tokenizer.eot() && tokenizer.special_text(after[0]).empty()))
    throw DataError(
        fmt::format("chat template {}: the text after an answer, \"{}\", does not begin with a special token of this "
                    "tokenizer, so a "
                    "model could not end its answers; begin it with one, or with {{eos}}",
                    shown(options.format), shown(template_.assistant.after)));
  end_ = after[0];
}

void ChatEncoder::require_special_tokens() const {
  std::vector<std::string> texts = {template_.begin};
  for (const char* role : {"system", "user", "assistant"})
    if (const RoleText* text = template_.role(role)) texts.insert(texts.end(), {text->before, text->after});
  for (const std::string& text : texts)
    for (const std::string& token : special_tokens_in(text))
      if (!tokenizer_.special_id(token))
        throw DataError(
            fmt::format("the tokenizer has no special token {}, which the chat template {} needs; the chat template "
                        "plain needs none, and the tokenizer of a new model has it by train-tokenizer --special {}",
                        shown(token), shown(options_.format), shown(token)));
}

void ChatEncoder::add_template(const std::string& text, std::vector<Part>& parts) const {
  for (size_t at = 0; at < text.size();) {
    const size_t bos = std::min(text.find("{bos}", at), text.size()),
                 eos = std::min(text.find("{eos}", at), text.size());
    const size_t next = std::min(bos, eos);
    if (next > at) parts.push_back({text.substr(at, next - at), false, std::nullopt});
    at = next + (next < text.size() ? 5 : 0);
    if (next == text.size()) break;
    const auto id = next == eos ? std::optional(tokenizer_.eot()) : tokenizer_.bos();
    if (!id)
      throw DataError(fmt::format("the tokenizer has no token for {{bos}} of chat template {}", options_.format));
    const std::string_view written = tokenizer_.special_text(*id);
    parts.push_back({std::string(written), false, written.empty() ? id : std::nullopt});
  }
}

void ChatEncoder::add_message(const Message& message, const std::string& where, std::vector<Part>& parts) const {
  const RoleText* role = template_.role(message.role);
  if (!role)
    throw DataError(
        fmt::format("{}: the chat template has no text for messages with the role {}", where, message.role));
  add_template(role->before, parts);
  parts.push_back({template_.trim ? std::string(trim(message.content)) : message.content, true, std::nullopt});
  add_template(role->after, parts);
}

std::optional<Message> ChatEncoder::default_message(std::span<const Message> messages) const {
  if (!template_.default_system || (!messages.empty() && messages[0].role == "system")) return std::nullopt;
  return Message{"system", *template_.default_system};
}

std::vector<ChatEncoder::Part> ChatEncoder::render(std::span<const Message> messages, const std::string& where,
                                                   std::vector<size_t>& answers) const {
  std::vector<Part> parts;
  add_template(template_.begin, parts);
  if (const auto first = default_message(messages)) add_message(*first, where, parts);
  for (const Message& m : messages) {
    if (m.role == "assistant") {
      std::vector<Part> header;
      add_template(template_.assistant.before, header);
      answers.push_back(parts.size() + header.size());
    }
    add_message(m, where, parts);
  }
  return parts;
}

bool ChatEncoder::holds_special_text(const std::string& content) {
  std::vector<int32_t> as_tokens, as_text;
  tokens_->append(content, as_tokens);
  text_->append(content, as_text);
  return as_tokens != as_text;
}

bool ChatEncoder::encode_apart(std::span<const Message> messages, const std::string& where) {
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
  return apart;
}

void ChatEncoder::encode(std::span<const Part> parts, bool apart, std::vector<int32_t>& ids) {
  std::string whole;
  const auto flush = [&] {
    if (!whole.empty()) tokens_->append(whole, ids);
    whole.clear();
  };
  for (const Part& part : parts) {
    if (part.id) {
      flush();
      ids.push_back(*part.id);
    } else if (apart) {
      (part.content ? text_ : tokens_)->append(part.text, ids);
    } else {
      whole += part.text;
    }
  }
  flush();
}

void ChatEncoder::append(std::span<const Message> messages, Answers answers, const std::string& where,
                         std::vector<int32_t>& ids, std::vector<uint8_t>& loss_mask) {
  std::vector<size_t> begins;
  const std::vector<Part> parts = render(messages, where, begins);
  const bool apart = encode_apart(messages, where);
  std::vector<int32_t> all, before;
  encode(parts, apart, all);
  std::vector<uint8_t> mask(all.size());
  if (answers == Answers::last && !begins.empty()) begins = {begins.back()};
  for (const size_t begin : begins) {
    before.clear();
    encode(std::span(parts).first(begin), apart, before);
    auto at = std::mismatch(before.begin(), before.end(), all.begin(), all.end()).second;
    const auto end = std::find(at, all.end(), end_);
    if (end == all.end())
      throw DataError(fmt::format("{}: the text of a message and the chat template form a special token", where));
    std::fill(mask.begin() + (at - all.begin()), mask.begin() + (end - all.begin()) + 1, uint8_t{1});
  }
  // A template whose last token ends the text needs no second one.
  if (all.empty() || all.back() != tokenizer_.eot()) {
    all.push_back(tokenizer_.eot());
    mask.push_back(0);
  }
  ids.insert(ids.end(), all.begin(), all.end());
  loss_mask.insert(loss_mask.end(), mask.begin(), mask.end());
}

std::vector<int32_t> ChatEncoder::prompt(std::span<const Message> messages) {
  std::vector<size_t> answers;
  std::vector<Part> parts = render(messages, "the prompt", answers);
  add_template(template_.assistant.before, parts);
  bool apart = false;
  for (const Message& m : messages) apart = apart || holds_special_text(m.content);
  std::vector<int32_t> ids;
  encode(parts, apart, ids);
  return ids;
}

std::vector<int32_t> ChatEncoder::next_turn(const Message& message) {
  std::vector<Part> parts;
  add_template(template_.assistant.after, parts);
  add_message(message, "the prompt", parts);
  add_template(template_.assistant.before, parts);
  std::vector<int32_t> ids;
  encode(parts, holds_special_text(message.content), ids);
  return ids;
}

int32_t end_of_answer(const std::string& format, const Tokenizer& tokenizer) {
  return ChatEncoder(tokenizer, {format, true}).end_of_answer();
}

}  // namespace fp
