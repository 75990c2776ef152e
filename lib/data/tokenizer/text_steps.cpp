#include "data/tokenizer/text_steps.h"

#include <utf8proc.h>

#include <cstdlib>

#include "base/error.h"

namespace fp {
namespace {

std::string nfc(std::string_view text) {
  utf8proc_uint8_t* result = nullptr;
  const auto length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &result, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(result, std::free);
  FP_CHECK(length >= 0, "utf8proc on {} bytes: {}", text.size(), utf8proc_errmsg(length));
  return {reinterpret_cast<const char*>(result), static_cast<size_t>(length)};
}

// Also removes U+2581 at the end, because SentencePiece strips after it has replaced spaces by that mark.
std::string collapse_spaces(std::string_view text) {
  constexpr std::string_view kMark = "\u2581";
  for (;;) {
    if (text.ends_with(' '))
      text.remove_suffix(1);
    else if (text.ends_with(kMark))
      text.remove_suffix(kMark.size());
    else
      break;
  }
  std::string result;
  for (const char c : text)
    if (c != ' ' || (!result.empty() && result.back() != ' ')) result += c;
  return result;
}

bool is_ascii(std::string_view text) {
  for (const char c : text)
    if (static_cast<uint8_t>(c) >= 0x80) return false;
  return true;
}

}  // namespace

StepRunner::StepRunner(const std::vector<TextStep>& steps)
    : steps_(steps), matchers_(steps.size()), buffers_(steps.size()) {
  for (size_t i = 0; i < steps.size(); ++i)
    if (steps[i].pattern) matchers_[i].emplace(*steps[i].pattern);
}

std::optional<StepRunner::Span> StepRunner::next_match(size_t i, std::string_view text, size_t from) {
  if (matchers_[i]) {
    const auto match = matchers_[i]->find(text, from);
    if (!match) return std::nullopt;
    return Span{match->begin, match->end};
  }
  const size_t at = text.find(steps_[i].literal, from);
  if (at == std::string_view::npos) return std::nullopt;
  return Span{at, at + steps_[i].literal.size()};
}

std::string_view StepRunner::changed(size_t i, std::string_view text, bool at_start) {
  const TextStep& step = steps_[i];
  std::string& result = buffers_[i];
  switch (step.kind) {
    case TextStep::Kind::collapse_spaces:
      return result = collapse_spaces(text);
    case TextStep::Kind::nfc:
      if (is_ascii(text)) return text;
      return result = nfc(text);
    case TextStep::Kind::replace: {
      result.clear();
      size_t done = 0;
      while (const auto match = next_match(i, text, done)) {
        result.append(text, done, match->begin - done).append(step.content);
        done = match->end;
      }
      if (done == 0) return text;
      return result.append(text, done, text.size() - done);
    }
    case TextStep::Kind::prepend: {
      const bool there = text.starts_with(step.content);
      if (step.prepend != TextStep::Prepend::always && there) return text;
      if (step.prepend == TextStep::Prepend::at_start_unless_there && !at_start) return text;
      return result.assign(step.content).append(text);
    }
    case TextStep::Kind::split:
      break;
  }
  FP_UNREACHABLE("a split changes no text");
}

}  // namespace fp
