#include <vector>

#include "ops/checks.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/sum_blocks.h"

namespace fp {

void CpuOps::bit_sums(const Tensor& sums, const Tensor& x) {
  checks::bit_sums(sums, x);
  std::vector<cpu::Block> blocks;
  cpu::append_blocks(blocks, 0, x.elements());
  std::vector<uint32_t> partial(2 * blocks.size());
  k_.bit_sums(partial.data(), x.data, x.dtype == DType::bf16, blocks.data(), static_cast<int64_t>(blocks.size()));
  cpu::fold_bit_sums(sums.ptr<int32_t>(), partial.data(), blocks.size(), 2);
}

void CpuOps::piece_sums(const Tensor& sums, const Tensor& x) {
  checks::piece_sums(sums, x);
  const int64_t pieces = sums.rows(), each = x.elements() / pieces;
  std::vector<cpu::Block> blocks;
  for (int64_t p = 0; p < pieces; ++p) cpu::append_blocks(blocks, p * each, each);
  std::vector<double> partial(2 * blocks.size());
  k_.piece_sums(partial.data(), x.data, x.dtype == DType::bf16, blocks.data(), static_cast<int64_t>(blocks.size()));
  const size_t of_piece = blocks.size() / static_cast<size_t>(pieces);
  for (size_t p = 0; p < static_cast<size_t>(pieces); ++p)
    cpu::fold_piece_sums(sums.ptr<float>() + 2 * p, partial.data() + 2 * p * of_piece, of_piece);
}

}  // namespace fp
