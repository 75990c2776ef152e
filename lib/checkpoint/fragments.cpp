#include "checkpoint/fragments.h"

#include <algorithm>
#include <atomic>
#include <bit>

#include "base/parallel.h"
#include "base/philox.h"

namespace fp {
namespace {

constexpr int64_t kBlockElements = int64_t{2} << 20;  // 8 MiB

int64_t row_elements(const Param& p) { return p.local.elements() / std::max<int64_t>(p.local[0], 1); }

bool same_box(const Slab& a, const Slab& b) { return a.start == b.start && a.count == b.count; }

// Whether b begins where a ends, logically and locally.
bool follows(const Slab& a, const Slab& b, int dim) {
  return a.start[dim] + a.count[dim] == b.start[dim] && a.local_start + a.count[dim] == b.local_start;
}

}  // namespace

std::optional<StateKind> state_kind(std::string_view name) {
  for (const StateKind k : kStateKinds)
    if (name == name_of(k)) return k;
  return std::nullopt;
}

const Tensor& flat_of(const ParamStore& store, StateKind kind) {
  switch (kind) {
    case StateKind::param:
      return store.master();
    case StateKind::exp_avg:
      return store.moment1();
    case StateKind::exp_avg_sq:
      return store.moment2();
  }
  throw InternalError("no such kind of state");
}

std::vector<Slab> owned_slabs(const ParamTable& table, ParamId id) {
  const Param& p = table[id];
  std::vector<Slab> below;
  for (int rank = 0; rank < table.tp_index(); ++rank)
    for (const Slab& s : slabs(p.shape, p.partition, table.tp(), rank)) below.push_back(s);
  std::vector<Slab> owned;
  for (const Slab& s : table.slabs_of(id)) {
    if (std::any_of(below.begin(), below.end(), [&](const Slab& b) { return same_box(b, s); })) continue;
    const int dim = p.partition.dim;
    if (!owned.empty() && dim >= 0 && follows(owned.back(), s, dim))
      owned.back().count[dim] += s.count[dim];
    else
      owned.push_back(s);
  }
  return owned;
}

void for_each_block(const Param& p, const std::function<void(const RowBlock&)>& visit) {
  FP_CHECK(p.shape.rank() >= 1 && p.partition.dim <= 1, "{}: cannot stream a tensor {} cut along dimension {}", p.name,
           p.shape.str(), p.partition.dim);
  const int64_t step = std::max<int64_t>(1, kBlockElements / row_elements(p));
  for (int64_t row = 0; row < p.local[0]; row += step) visit({row, std::min(step, p.local[0] - row)});
}

std::optional<Overlap> overlap(const Param& p, const Slab& s, const RowBlock& block) {
  const int64_t local_row = p.partition.dim == 0 ? s.local_start : 0;
  const int64_t begin = std::max(block.first, local_row);
  const int64_t end = std::min(block.first + block.count, local_row + s.count[0]);
  if (begin >= end) return std::nullopt;
  Overlap o{{s.start, s.count}, {p.local, p.local}};
  o.logical.start[0] += begin - local_row;
  o.logical.count[0] = end - begin;
  o.window.dims[0] = block.count;
  for (int i = 0; i < p.local.rank(); ++i) o.window.start[i] = 0;
  o.window.start[0] = begin - block.first;
  if (p.partition.dim == 1) o.window.start[1] = s.local_start;
  return o;
}

uint64_t fingerprint(const Shape& logical, const h5::Box& box, const float* data, const h5::Window& window) {
  // Rows are runs of elements that are neighbours in the logical tensor and in memory.
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
      uint64_t index = static_cast<uint64_t>((box.start[0] + r) * logical_row + column) * 0x9E3779B97F4A7C15u;
      for (int64_t i = 0; i < run; ++i, index += 0x9E3779B97F4A7C15u)
        part += Philox::mix(index + std::bit_cast<uint32_t>(row[i]));
    }
    sum.fetch_add(part, std::memory_order_relaxed);
  });
  return sum;
}

Fingerprints fingerprints(const ParamStore& store, Ops& ops) {
  const ParamTable& table = store.table();
  Fingerprints result(table.size());
  std::vector<float> host;
  for (ParamId id = 0; id < static_cast<ParamId>(table.size()); ++id) {
    const Param& p = table[id];
    const std::vector<Slab> owned = owned_slabs(table, id);
    for (const StateKind kind : kStateKinds) {
      const Tensor& flat = flat_of(store, kind);
      if (!flat) continue;
      uint64_t& sum = result[static_cast<size_t>(id)][kind];
      if (owned.empty()) continue;
      for_each_block(p, [&](const RowBlock& block) {
        host.resize(static_cast<size_t>(block.count * row_elements(p)));
        ops.copy_out(host.data(), store.part(flat, id).slice(block.first, block.count));
        for (const Slab& s : owned)
          if (const auto o = overlap(p, s, block)) sum += fingerprint(p.shape, o->logical, host.data(), o->window);
      });
    }
  }
  return result;
}

std::string hex(uint64_t value) { return fmt::format("{:016x}", value); }

}  // namespace fp
