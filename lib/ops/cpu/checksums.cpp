#include <algorithm>
#include <vector>

#include "ops/checks.h"
#include "ops/cpu/cpu_ops.h"

namespace fp {
namespace {

constexpr int64_t kChecksumBlock = int64_t{1} << 15;  // elements of a partial sum

std::vector<cpu::Block> blocks_of(int64_t first, int64_t count) {
  std::vector<cpu::Block> blocks;
  for (int64_t i = 0; i < count; i += kChecksumBlock)
    blocks.push_back({first + i, std::min(kChecksumBlock, count - i)});
  return blocks;
}

}  // namespace

void CpuOps::bit_sums(const Tensor& sums, const Tensor& x) {
  checks::bit_sums(sums, x);
  const std::vector<cpu::Block> blocks = blocks_of(0, x.elements());
  std::vector<uint32_t> partial(2 * blocks.size());
  k_.bit_sums(partial.data(), x.data, x.dtype == DType::bf16, blocks.data(), static_cast<int64_t>(blocks.size()));
  uint32_t sum = 0, weighted = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    sum += partial[2 * i];
    weighted += partial[2 * i + 1] + 2 * static_cast<uint32_t>(blocks[i].offset) * partial[2 * i];
  }
  sums.ptr<int32_t>()[0] = static_cast<int32_t>(sum);
  sums.ptr<int32_t>()[1] = static_cast<int32_t>(weighted);
}

void CpuOps::piece_sums(const Tensor& sums, const Tensor& x) {
  checks::piece_sums(sums, x);
  const int64_t pieces = sums.rows(), each = x.elements() / pieces;
  std::vector<cpu::Block> blocks;
  for (int64_t p = 0; p < pieces; ++p) std::ranges::copy(blocks_of(p * each, each), std::back_inserter(blocks));
  std::vector<double> partial(2 * blocks.size());
  k_.piece_sums(partial.data(), x.data, x.dtype == DType::bf16, blocks.data(), static_cast<int64_t>(blocks.size()));
  const size_t of_piece = blocks.size() / static_cast<size_t>(pieces);
  for (int64_t p = 0; p < pieces; ++p) {
    double total[2] = {0, 0};
    for (size_t i = 0; i < of_piece; ++i)
      for (size_t k : {0, 1}) total[k] += partial[2 * (static_cast<size_t>(p) * of_piece + i) + k];
    for (int64_t k : {0, 1}) sums.ptr<float>()[2 * p + k] = static_cast<float>(total[k]);
  }
}

}  // namespace fp
