#include "data/tokenizer/tiktoken.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "data/tokenizer/base64.h"
#include "data/tokenizer/join_table.h"
#include "data/tokenizer/pretokenizer.h"

namespace fp {

const char* const kCl100kPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\p{White_Space}\p{L}\p{N}]++[\r\n]*+)"
    R"(|\p{White_Space}*[\r\n]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}++)";

namespace {

constexpr size_t kGpt2Ranks = 50256, kCl100kRanks = 100256, kLlama3Ranks = 128000;

// Splits "base64 rank" into its parts; returns false when one is missing.
bool split_line(std::string_view line, std::string_view& token, std::string_view& rank) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || space == 0) return false;
  token = line.substr(0, space);
  rank = line.substr(space + 1);
  return !rank.empty() && rank.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string_view next_line(std::string_view& content) {
  const size_t end = std::min(content.find('\n'), content.size());
  std::string_view line = content.substr(0, end);
  content.remove_prefix(std::min(end + 1, content.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::vector<RankedToken> read_ranks(std::string_view content, const std::string& where) {
  std::vector<RankedToken> tokens;
  for (size_t number = 1; !content.empty(); ++number) {
    const std::string_view line = next_line(content);
    if (line.empty()) continue;
    std::string_view text, digits;
    int32_t rank = -1;
    if (split_line(line, text, digits)) std::from_chars(digits.data(), digits.data() + digits.size(), rank);
    const auto bytes = rank >= 0 ? base64_decode(text) : std::nullopt;
    if (!bytes || bytes->empty() || bytes->size() > kMaxTokenBytes || rank >= kMaxTokenIds)
      throw DataError(fmt::format("{}:{}: legal: the base64 form of 1 to {} bytes, a space, a rank below {}", where,
                                  number, kMaxTokenBytes, kMaxTokenIds));
    tokens.push_back({*bytes, rank, rank});
  }
  return tokens;
}

AddedToken special(int32_t id, std::string content) {
  AddedToken token;
  token.id = id;
  token.content = std::move(content);
  token.special = true;
  return token;
}

std::vector<AddedToken> llama3_tokens() {
  std::vector<AddedToken> tokens;
  int32_t reserved = 0;
  for (int32_t i = 0; i < 256; ++i) {
    const char* name = i == 0   ? "<|begin_of_text|>"
                       : i == 1 ? "<|end_of_text|>"
                       : i == 6 ? "<|start_header_id|>"
                       : i == 7 ? "<|end_header_id|>"
                       : i == 9 ? "<|eot_id|>"
                                : nullptr;
    tokens.push_back(special(static_cast<int32_t>(kLlama3Ranks) + i,
                             name ? name : fmt::format("<|reserved_special_token_{}|>", reserved++)));
  }
  return tokens;
}

std::vector<AddedToken> usual_tokens(size_t ranks, const std::string& where) {
  switch (ranks) {
    case kGpt2Ranks:
      return {special(50256, "<|endoftext|>")};
    case kCl100kRanks:
      return {special(100257, "<|endoftext|>"), special(100258, "<|fim_prefix|>"), special(100259, "<|fim_middle|>"),
              special(100260, "<|fim_suffix|>"), special(100276, "<|endofprompt|>")};
    case kLlama3Ranks:
      return llama3_tokens();
    default:
      throw DataError(fmt::format(
          "{}: {} ranks and no special tokens: legal are {} (GPT-2), {} (cl100k), {} (Llama 3), or a folder "
          "whose tokenizer_config.json lists them in added_tokens_decoder",
          where, ranks, kGpt2Ranks, kCl100kRanks, kLlama3Ranks));
  }
}

}  // namespace

bool looks_like_tiktoken(std::string_view content) {
  std::string_view token, rank;
  return split_line(next_line(content), token, rank) && base64_decode(token).has_value();
}

std::vector<AddedToken> phi3_small_tokens() {
  std::vector<AddedToken> tokens = usual_tokens(kCl100kRanks, "cl100k");
  tokens.push_back(special(100261, "<|system|>"));
  tokens.push_back(special(100262, "<|user|>"));
  tokens.push_back(special(100263, "<|assistant|>"));
  tokens.push_back(special(100266, "<|end|>"));
  return tokens;
}

TokenizerDefinition parse_tiktoken(const TokenizerSource& source, const std::string& where) {
  const std::vector<RankedToken> ranks = read_ranks(source.data, where);
  TokenizerDefinition d;
  d.kind = "tiktoken BPE";
  d.rules.byte_ids.fill(-1);
  StringMap<int32_t> listed;
  const size_t most = max_ids(ranks.size());
  for (const RankedToken& token : ranks) {
    const auto id = static_cast<size_t>(token.id);
    if (id >= most) throw DataError(fmt::format("{}: rank {} in a file of {} ranks", where, id, ranks.size()));
    if (d.tokens.size() <= id) d.tokens.resize(id + 1);
    if (d.tokens[id] || !listed.emplace(token.text, token.id).second)
      throw DataError(fmt::format("{}: rank {} or its token occurs twice", where, id));
    d.tokens[id] = token.text;
    if (token.text.size() == 1) d.rules.byte_ids[static_cast<uint8_t>(token.text[0])] = token.id;
    d.rules.whole_words.emplace_back(token.text, token.id);
  }
  for (size_t b = 0; b < 256; ++b)
    if (d.rules.byte_ids[b] < 0) throw DataError(fmt::format("{}: no rank for the single byte {:#04x}", where, b));
  d.rules.merges = join_table(ranks, BpeRules::Symbols::bytes);
  d.pre_tokenizer.push_back(
      split_step(std::make_shared<Regex>(ranks.size() == kGpt2Ranks ? kGpt2Pattern : kCl100kPattern)));
  TokenizerSource with_usual = source;
  if (source.added.empty()) with_usual.added = usual_tokens(ranks.size(), where);
  add_tokens_of(with_usual, listed, where, d);
  if (ranks.size() == kLlama3Ranks && source.added.empty()) d.prefix_ids = {static_cast<int32_t>(kLlama3Ranks)};
  return d;
}

}  // namespace fp
