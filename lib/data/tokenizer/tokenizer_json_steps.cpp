#include "data/tokenizer/tokenizer_json_steps.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "data/tokenizer/definition.h"
#include "data/tokenizer/oniguruma.h"
#include "data/tokenizer/pretokenizer.h"

namespace fp {
namespace {

constexpr int kMaxDepth = 8;
constexpr size_t kMaxSteps = 64;

// Calls f for a component, or for each component of a Sequence in order; `list` is the field that holds them.
void flatten(const JsonValue& json, const char* list, const std::function<void(const JsonValue&)>& f, int depth = 0) {
  if (json.is_null()) return;
  if (json.type() != "Sequence") return f(json);
  json.only({"type", list});
  const JsonValue items = json.at(list);
  items.need(items.json().is_array() && depth < kMaxDepth && items.size() <= kMaxSteps,
             fmt::format("an array of at most {} components, nested less than {} deep", kMaxSteps, kMaxDepth));
  for (size_t i = 0; i < items.size(); ++i) flatten(items[i], list, f, depth + 1);
}

// Returns the factor by which a text can grow when matches of at least `from` bytes are replaced by `to`.
size_t growth(size_t from, const std::string& to) { return std::max<size_t>(1, (to.size() + from - 1) / from); }

// Limits the product of the growth factors of all steps, so that a small file cannot produce huge texts.
constexpr size_t kMaxGrowth = 64;
size_t check_growth(size_t so_far, size_t by, const JsonValue& json) {
  json.need(by <= kMaxGrowth && so_far * by <= kMaxGrowth,
            fmt::format("replacements that together make a text {} times as long at most", kMaxGrowth));
  return so_far * by;
}
void check_growth(const std::vector<TextStep>& steps, const JsonValue& json) {
  size_t factor = 1;
  for (const TextStep& step : steps) {
    if (step.kind == TextStep::Kind::replace)
      factor = check_growth(factor, growth(std::max<size_t>(1, step.literal.size()), step.content), json);
    else
      check_growth(1, growth(1, step.content), json);
  }
}

// Reads {"String": "..."} or {"Regex": "..."} as the text or pattern of a step.
void read_pattern(const JsonValue& json, TextStep& step) {
  json.only({"String", "Regex"});
  json.need(json.json().size() == 1, "{\"String\": \"...\"} or {\"Regex\": \"...\"}");
  if (json.has("String")) {
    step.literal = json.at("String").text();
    json.at("String").need(!step.literal.empty(), "a non-empty string");
    return;
  }
  const JsonValue regex = json.at("Regex");
  try {
    step.pattern = std::make_shared<Regex>(translate_oniguruma(regex.text()));
  } catch (const ConfigError& e) {
    regex.fail(e.what());
  }
  regex.need(!step.pattern->can_match_nothing(), "an expression that cannot match an empty text");
}

void add_byte_level(const JsonValue& json, std::vector<TextStep>& steps) {
  json.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  json.get("trim_offsets").flag(true);  // irrelevant: offsets are not computed
  if (json.get("add_prefix_space").flag(true)) steps.push_back(prepend_step(" ", TextStep::Prepend::unless_there));
  if (json.get("use_regex").flag(true)) steps.push_back(split_step(std::make_shared<Regex>(kGpt2Pattern)));
}

void add_split(const JsonValue& json, std::vector<TextStep>& steps) {
  json.only({"type", "pattern", "behavior", "invert"});
  TextStep step = split_step(nullptr);
  read_pattern(json.at("pattern"), step);
  const JsonValue behavior = json.at("behavior");
  const std::string name = behavior.text();
  using Matches = TextStep::Matches;
  const std::pair<const char*, Matches> legal[] = {{"Removed", Matches::removed},
                                                   {"Isolated", Matches::isolated},
                                                   {"MergedWithPrevious", Matches::merged_with_previous},
                                                   {"MergedWithNext", Matches::merged_with_next},
                                                   {"Contiguous", Matches::contiguous}};
  bool found = false;
  for (const auto& [legal_name, matches] : legal)
    if (name == legal_name) step.matches = matches, found = true;
  behavior.need(found, "Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
  step.invert = json.get("invert").flag(false);
  steps.push_back(std::move(step));
}

// The replacement of a Metaspace and when it is prepended. Files from before tokenizers 0.14 have add_prefix_space
// instead of prepend_scheme.
struct Metaspace {
  std::string replacement;
  std::string scheme;  // always | first | never
};

Metaspace read_metaspace(const JsonValue& json) {
  json.only({"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
  Metaspace result{json.at("replacement").text(), "always"};
  json.at("replacement").need(!result.replacement.empty(), "a character");
  const JsonValue scheme = json.get("prepend_scheme"), older = json.get("add_prefix_space");
  if (!scheme.is_null()) {
    result.scheme = scheme.text();
    scheme.need(result.scheme == "always" || result.scheme == "first" || result.scheme == "never",
                "always, first, never");
    if (!older.flag(true)) older.need(result.scheme == "never", "true beside this prepend_scheme");
  } else if (!older.flag(true)) {
    result.scheme = "never";
  }
  return result;
}

void add_metaspace(const JsonValue& json, std::vector<TextStep>& steps) {
  const Metaspace metaspace = read_metaspace(json);
  steps.push_back(replace_step(" ", metaspace.replacement));
  if (metaspace.scheme != "never")
    steps.push_back(prepend_step(metaspace.replacement, metaspace.scheme == "first"
                                                            ? TextStep::Prepend::at_start_unless_there
                                                            : TextStep::Prepend::unless_there));
  if (json.get("split").flag(true)) {
    TextStep split = split_step(nullptr);
    split.literal = metaspace.replacement;
    split.matches = TextStep::Matches::merged_with_next;
    steps.push_back(std::move(split));
  }
}

// Reads the ids that a template puts before and after the text.
void wrap_template(const JsonValue& json, PostProcessor& result) {
  json.only({"type", "single", "pair", "special_tokens"});  // pairs of texts are never encoded
  const JsonValue single = json.at("single"), tokens = json.at("special_tokens");
  single.need(single.json().is_array(), "an array");
  std::vector<int32_t> prefix, suffix;
  int sequences = 0;
  for (size_t i = 0; i < single.size(); ++i) {
    const JsonValue item = single[i];
    item.only({"SpecialToken", "Sequence"});
    item.need(item.json().size() == 1, "SpecialToken or Sequence");
    if (item.has("Sequence")) {
      const JsonValue id = item.at("Sequence").at("id");
      id.need(id.text() == "A" && ++sequences == 1, "\"A\", once");
      continue;
    }
    const JsonValue ids = tokens.at(item.at("SpecialToken").at("id").text()).at("ids");
    ids.need(ids.json().is_array(), "an array");
    for (size_t k = 0; k < ids.size(); ++k) (sequences == 0 ? prefix : suffix).push_back(ids[k].id());
  }
  single.need(sequences == 1, "a template with the Sequence A");
  result.prefix_ids.insert(result.prefix_ids.begin(), prefix.begin(), prefix.end());
  result.suffix_ids.insert(result.suffix_ids.end(), suffix.begin(), suffix.end());
}

}  // namespace

std::vector<TextStep> read_normalizer(const JsonValue& json) {
  std::vector<TextStep> steps;
  flatten(json, "normalizers", [&](const JsonValue& item) {
    const std::string type = item.type();
    if (type == "Prepend") {
      item.only({"type", "prepend"});
      steps.push_back(prepend_step(item.at("prepend").text(), TextStep::Prepend::always));
    } else if (type == "Replace") {
      item.only({"type", "pattern", "content"});
      steps.push_back(replace_step("", item.at("content").text()));
      read_pattern(item.at("pattern"), steps.back());
    } else if (type == "NFC") {
      item.only({"type"});
      steps.emplace_back().kind = TextStep::Kind::nfc;
    } else {
      item.get("type").illegal("Sequence, Prepend, Replace, NFC");
    }
  });
  check_growth(steps, json);
  return steps;
}

PreTokenizer read_pre_tokenizer(const JsonValue& json) {
  PreTokenizer result;
  flatten(json, "pretokenizers", [&](const JsonValue& item) {
    const std::string type = item.type();
    item.get("type").need(!result.byte_level, "nothing after ByteLevel");
    if (type == "ByteLevel") {
      add_byte_level(item, result.steps);
      result.byte_level = true;
    } else if (type == "Split") {
      add_split(item, result.steps);
    } else if (type == "Metaspace") {
      add_metaspace(item, result.steps);
    } else {
      item.get("type").illegal("Sequence, ByteLevel, Split, Metaspace");
    }
  });
  check_growth(result.steps, json);
  return result;
}

PostProcessor read_post_processor(const JsonValue& json) {
  PostProcessor result;
  flatten(json, "processors", [&](const JsonValue& item) {
    if (item.type() == "TemplateProcessing")
      wrap_template(item, result);
    else
      item.get("type").need(item.type() == "ByteLevel", "Sequence, ByteLevel, TemplateProcessing");
  });
  return result;
}

TokenDecoder read_decoder(const JsonValue& json) {
  TokenDecoder result;
  bool fused = false;
  size_t factor = 1;
  constexpr const char* kLegal = "Sequence, ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace";
  json.need(!json.is_null(), kLegal);
  flatten(json, "decoders", [&](const JsonValue& item) {
    const std::string type = item.type();
    if (type == "ByteLevel") {
      result.byte_level = true;
    } else if (type == "Replace") {
      TextStep step;
      read_pattern(item.at("pattern"), step);
      item.at("pattern").need(!step.pattern && !fused, "a String, before Fuse");
      result.replacements.push_back({step.literal, item.at("content").text()});
      factor = check_growth(factor, growth(step.literal.size(), result.replacements.back().to), item);
    } else if (type == "ByteFallback") {
      item.need(!fused, "ByteFallback before Fuse");
      result.byte_fallback = true;
    } else if (type == "Fuse") {
      fused = true;
    } else if (type == "Strip") {
      const bool starts = item.at("start").integer(0, 1) == 1;
      item.at("stop").integer(0, 0);
      item.need(fused || !starts, "Strip after Fuse");
      if (starts) result.dummy_prefix = item.at("content").text();
    } else if (type == "Metaspace") {
      const Metaspace metaspace = read_metaspace(item);
      result.replacements.push_back({metaspace.replacement, " "});
      if (metaspace.scheme != "never") result.dummy_prefix = " ";
    } else {
      item.get("type").illegal(kLegal);
    }
  });
  return result;
}

int byte_of_fallback_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  const size_t high = kDigits.find(token[3]), low = kDigits.find(token[4]);
  return high == std::string_view::npos || low == std::string_view::npos ? -1 : static_cast<int>(16 * high + low);
}

std::string fallback_token_of(int byte) { return fmt::format("<0x{:02X}>", byte); }

std::string TokenDecoder::text_of(std::string token) const {
  if (const int byte = byte_fallback ? byte_of_fallback_token(token) : -1; byte >= 0)
    return std::string(1, static_cast<char>(static_cast<uint8_t>(byte)));
  for (const Replacement& r : replacements)
    for (size_t at = 0; (at = token.find(r.from, at)) != std::string::npos; at += r.to.size())
      token.replace(at, r.from.size(), r.to);
  return token;
}

}  // namespace fp
