#include <vector>

#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/sum_blocks.h"

namespace fp {

void CpuOps::run(const calls::BitSums& call) {
  std::vector<cpu::Block> blocks;
  cpu::append_blocks(blocks, 0, call.x.elements());
  std::vector<uint32_t> partial(2 * blocks.size());
  k_.bit_sums(partial.data(), call.x.data, call.x.dtype == DType::bf16, blocks.data(),
              static_cast<int64_t>(blocks.size()));
  cpu::fold_bit_sums(call.sums.ptr<int32_t>(), partial.data(), blocks.size(), 2);
}

void CpuOps::run(const calls::PieceSums& call) {
  const int64_t pieces = call.sums.rows(), each = call.x.elements() / pieces;
  std::vector<cpu::Block> blocks;
  for (int64_t p = 0; p < pieces; ++p) cpu::append_blocks(blocks, p * each, each);
  std::vector<double> partial(2 * blocks.size());
  k_.piece_sums(partial.data(), call.x.data, call.x.dtype == DType::bf16, blocks.data(),
                static_cast<int64_t>(blocks.size()));
  const size_t of_piece = blocks.size() / static_cast<size_t>(pieces);
  for (size_t p = 0; p < static_cast<size_t>(pieces); ++p)
    cpu::fold_piece_sums(call.sums.ptr<float>() + 2 * p, partial.data() + 2 * p * of_piece, of_piece);
}

}  // namespace fp
