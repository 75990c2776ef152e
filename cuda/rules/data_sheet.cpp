#include "cuda/rules/data_sheet.h"

#include <cctype>
#include <string_view>

namespace fp::cuda {
namespace {

struct Sheet {
  std::string_view part;  // words of the name; the first row that matches counts
  double bf16, f32;       // TFLOP/s
};
// From NVIDIA's data sheets, without sparsity.
constexpr Sheet kSheets[] = {
    {"GB300", 2500, 80}, {"B300", 2500, 80},         {"GB200", 2500, 80},        {"B200", 2250, 80},
    {"B100", 1800, 60},  {"H100 PCIe", 756, 51},     {"H100 NVL", 835, 60},      {"H200 NVL", 835, 60},
    {"H200", 989, 67},   {"GH200", 989, 67},         {"H100", 989, 67},          {"H800", 989, 67},
    {"H20", 148, 44},    {"A100", 312, 19.5},        {"A800", 312, 19.5},        {"L40S", 362, 91.6},
    {"L40", 181, 90.5},  {"L4", 121, 30.3},          {"A40", 150, 37.4},         {"A30", 165, 10.3},
    {"A10", 125, 31.2},  {"RTX A6000", 154.8, 38.7}, {"RTX 6000 Ada", 364, 91.1}};

bool is_word_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

// Whether `part` is in the name as whole words: A100 is not in RTX A1000.
bool has_words(std::string_view name, std::string_view part) {
  for (size_t at = name.find(part); at != std::string_view::npos; at = name.find(part, at + 1)) {
    const size_t end = at + part.size();
    if ((at == 0 || !is_word_character(name[at - 1])) && (end == name.size() || !is_word_character(name[end])))
      return true;
  }
  return false;
}

}  // namespace

double data_sheet_flops(const std::string& gpu, DType compute) {
  for (const Sheet& s : kSheets)
    if (has_words(gpu, s.part)) return (compute == DType::bf16 ? s.bf16 : s.f32) * 1e12;
  return 0.0;
}

}  // namespace fp::cuda
