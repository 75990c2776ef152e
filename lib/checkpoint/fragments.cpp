#include "checkpoint/fragments.h"

#include <algorithm>
#include <atomic>
#include <bit>

#include "base/parallel.h"
#include "base/philox.h"
#include "base/progress.h"
#include "model/host_view.h"

namespace fp {

h5::Window dense_window(const Box& box) {
  Shape origin = box.count;
  for (int i = 0; i < origin.rank(); ++i) origin[i] = 0;
  return {box.count, origin};
}

namespace {

constexpr uint64_t kStride = 0x9E3779B97F4A7C15u;

// The fingerprint of consecutive elements, the first of which has `index`.
[[gnu::always_inline]] inline uint64_t sum_of(const float* values, int64_t n, uint64_t index) {
  uint64_t sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += Philox::mix((index + static_cast<uint64_t>(i)) * kStride + std::bit_cast<uint32_t>(values[i]));
  return sum;
}

// Compiled for several instruction sets: AVX-512 has 64-bit products and is four times as fast.
uint64_t sum_anywhere(const float* values, int64_t n, uint64_t index) { return sum_of(values, n, index); }
#ifdef __x86_64__
[[gnu::target("avx2")]] uint64_t sum_avx2(const float* values, int64_t n, uint64_t index) {
  return sum_of(values, n, index);
}
[[gnu::target("avx512f,avx512dq,prefer-vector-width=512")]] uint64_t sum_avx512(const float* values, int64_t n,
                                                                                uint64_t index) {
  return sum_of(values, n, index);
}
const auto sum_of_row = __builtin_cpu_supports("avx512dq") ? sum_avx512
                        : __builtin_cpu_supports("avx2")   ? sum_avx2
                                                           : sum_anywhere;
#else
constexpr auto sum_of_row = sum_anywhere;
#endif

}  // namespace

uint64_t fingerprint(const Shape& logical, const Box& box, const float* data, const h5::Window& window) {
  // Rows are runs of elements that are consecutive in both the logical tensor and memory.
  const int64_t inner = box.count.rank() < 2 ? 1 : logical.elements() / logical[0] / logical[1];
  const int64_t run = box.count.elements() / box.count[0];
  const int64_t logical_row = logical.elements() / logical[0], memory_row = window.dims.elements() / window.dims[0];
  const int64_t column = box.start.rank() < 2 ? 0 : box.start[1] * inner;
  const int64_t memory_column = box.start.rank() < 2 ? 0 : window.start[1] * inner;
  std::atomic<uint64_t> sum{0};
  parallel_for(box.count[0], std::max<int64_t>(1, (1 << 16) / run), [&](int64_t begin, int64_t end) {
    uint64_t part = 0;
    for (int64_t r = begin; r < end; ++r) {
      const float* row = data + (window.start[0] + r) * memory_row + memory_column;
      part += sum_of_row(row, run, static_cast<uint64_t>((box.start[0] + r) * logical_row + column));
    }
    sum.fetch_add(part, std::memory_order_relaxed);
  });
  return sum;
}

uint64_t fingerprint(const Shape& logical, const Box& box, int64_t first, std::span<const float> values) {
  const int64_t inner = box.count.rank() < 2 ? 1 : logical.elements() / logical[0] / logical[1];
  const int64_t logical_row = logical.elements() / logical[0], row = box.count.elements() / box.count[0];
  const int64_t column = box.start.rank() < 2 ? 0 : box.start[1] * inner;
  const bool whole_rows = row == logical_row;
  uint64_t sum = 0;
  for (int64_t done = 0; done < static_cast<int64_t>(values.size());) {
    const int64_t left = static_cast<int64_t>(values.size()) - done, at = first + done;
    const int64_t run = whole_rows ? left : std::min(left, row - at % row);
    const int64_t index = (box.start[0] + at / row) * logical_row + column + at % row;
    sum += sum_of_row(values.data() + done, run, static_cast<uint64_t>(index));
    done += run;
  }
  return sum;
}

Fingerprints fingerprints(const ParamStore& store, Ops& ops) {
  const ParamTable& table = store.table();
  Fingerprints result(table.size());
  std::vector<float> host;
  for (ParamId id = 0; id < static_cast<ParamId>(table.size()); ++id)
    for (int slot = 0; slot < table.slot_count(); ++slot) {
      if (!store.has(slot) || !table.has_slot(id, slot)) continue;
      uint64_t& sum = result[static_cast<size_t>(id)][table.slot_name(slot)];
      for (const Fragment& whole : table.owned(id, table.shard(), slot))
        for (const Fragment& f : chunks(whole, kBlockElements)) {
          const float* values = host_view(ops, store.state(slot, {id, f.offset, f.count.elements()}), host);
          sum += fingerprint(table[id].shape, f, values, dense_window(f));
          progress();
        }
    }
  return result;
}

std::string hex(uint64_t value) { return fmt::format("{:016x}", value); }

}  // namespace fp
