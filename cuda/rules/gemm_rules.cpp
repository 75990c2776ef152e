#include "cuda/rules/gemm_rules.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/philox.h"

namespace fp::cuda {

SwappedProduct swapped(const GemmCall& g) {
  SwappedProduct p;
  // In column-major terms b, stored [k,n] by rows, is n x k; stored [n,k] it is k x n.
  p.first = g.b_transposed ? StoredMatrix{true, g.k, g.n, g.k} : StoredMatrix{false, g.n, g.k, g.n};
  p.second = g.a_transposed ? StoredMatrix{true, g.m, g.k, g.m} : StoredMatrix{false, g.k, g.m, g.k};
  p.result = {false, g.n, g.m, g.n};
  return p;
}

uint32_t alignment_of(const void* address) {
  const auto bits = reinterpret_cast<uintptr_t>(address) | 256;
  return uint32_t{1} << std::countr_zero(bits);
}

bool epilogue_fits(const GemmCall& g) {
  if (g.epilogue == Epilogue::none) return true;
  constexpr int64_t kNeeded = 16;
  const auto fits = [](const void* address) { return address == nullptr || alignment_of(address) >= kNeeded; };
  if (g.result != g.operands || !fits(g.vector) || !fits(g.aux)) return false;
  if (g.operands == DType::f32) return g.epilogue == Epilogue::bias;
  const SwappedProduct p = swapped(g);
  const bool whole_rows = std::ranges::all_of(std::array{p.first, p.second, p.result}, [](const StoredMatrix& m) {
    return m.leading * static_cast<int64_t>(sizeof(bf16)) % kNeeded == 0;
  });
  return whole_rows && fits(g.a) && fits(g.b) && fits(g.c);
}

GemmKey key_of(const GemmCall& g) {
  GemmKey key{g.m, g.n, g.k, 0, 0};
  for (const uint64_t field :
       {static_cast<uint64_t>(g.operands), static_cast<uint64_t>(g.result), uint64_t{g.a_transposed},
        uint64_t{g.b_transposed}, uint64_t{g.add}, static_cast<uint64_t>(g.epilogue), uint64_t{g.vector != nullptr}})
    key.flags = key.flags << 8 | field;
  for (const void* address :
       {g.a, g.b, static_cast<const void*>(g.c), static_cast<const void*>(g.vector), static_cast<const void*>(g.aux)})
    key.alignments = key.alignments << 12 | alignment_of(address);
  return key;
}

size_t GemmKeyHash::operator()(const GemmKey& key) const {
  uint64_t mixed = 0;
  for (const uint64_t field : {static_cast<uint64_t>(key.m), static_cast<uint64_t>(key.n), static_cast<uint64_t>(key.k),
                               key.flags, key.alignments})
    mixed = Philox::mix(mixed ^ field);
  return mixed;
}

}  // namespace fp::cuda
