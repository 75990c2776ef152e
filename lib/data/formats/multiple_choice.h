// Reads multiple-choice questions in llm.c's evaluation format (HellaSwag, MMLU), tokenized with GPT-2's ids.
//   256 int32: magic 20240522, version 1, examples, bytes of the longest example
//   then for each example, in 16-bit numbers: 65535, its size in bytes (all of these included), its index, the label,
//   the number of completions, n and n ids of the context, then n and n ids for each completion
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace fp {

struct MultipleChoice {
  int32_t label = 0;                              // index of the correct completion
  std::vector<int32_t> context;                   // may be empty
  std::vector<std::vector<int32_t>> completions;  // at least two, none empty
};

inline constexpr int32_t kMultipleChoiceMagic = 20240522;

// Both throw DataError naming the file (`where`) and the problem when it is not exactly of this format.
std::vector<MultipleChoice> parse_multiple_choice(std::span<const std::byte> file, const std::string& where);
std::vector<MultipleChoice> read_multiple_choice(const std::filesystem::path& path);

}  // namespace fp
