#include "cuda/rules/data_sheet.h"

namespace fp::cuda {
namespace {

struct Sheet {
  const char* part;  // part of the name; the first that matches counts
  double bf16, f32;  // TFLOP/s
};
// From NVIDIA's data sheets, without sparsity.
constexpr Sheet kSheets[] = {{"B300", 2500, 80},     {"GB200", 2500, 80},   {"B200", 2250, 80},  {"B100", 1800, 60},
                             {"H100 PCIe", 756, 51}, {"H100 NVL", 835, 60}, {"H200", 989, 67},   {"GH200", 989, 67},
                             {"H100", 989, 67},      {"H800", 989, 67},     {"A100", 312, 19.5}, {"A800", 312, 19.5},
                             {"L40S", 362, 91.6},    {"A40", 150, 37.4},    {"A30", 165, 10.3}};

}  // namespace

double data_sheet_flops(const std::string& gpu, DType compute) {
  for (const Sheet& s : kSheets)
    if (gpu.find(s.part) != std::string::npos) return (compute == DType::bf16 ? s.bf16 : s.f32) * 1e12;
  return 0.0;
}

}  // namespace fp::cuda
