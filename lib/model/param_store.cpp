#include <algorithm>
#include <vector>

#include "model/params.h"

namespace fp {

ParamStore::ParamStore(const ParamTable& table, DType compute, Content content, Arena& arena)
    : table_(&table), compute_(compute), written_(table.size()) {
  const Shape flat{table.flat_elements()};
  weights_ = arena.alloc(compute, flat, MemoryClass::parameters);
  if (content == Content::weights_only) return;
  if (compute != DType::f32) master_ = arena.alloc(DType::f32, flat, MemoryClass::optimizer);
  grads_ = arena.alloc(DType::f32, flat, MemoryClass::gradients);
  m_ = arena.alloc(DType::f32, flat, MemoryClass::optimizer);
  v_ = arena.alloc(DType::f32, flat, MemoryClass::optimizer);
}

Tensor ParamStore::view(const Tensor& flat, ParamId first, ParamId last) const {
  FP_CHECK(static_cast<bool>(flat), "this store holds weights only");
  const Param& p = (*table_)[first];
  Shape shape = p.local;
  int64_t end = p.offset + p.local_elements();
  for (ParamId id = first + 1; id <= last; ++id) {
    const Param& next = (*table_)[id];
    FP_CHECK(next.offset == end, "{} does not follow {} in memory", next.name, p.name);
    shape[0] += next.local[0];
    end += next.local_elements();
  }
  return Tensor(flat.data, flat.dtype, {flat.elements()}).slice(p.offset, end - p.offset).reshaped(shape);
}

Write ParamStore::grad_write(ParamId id) {
  const bool again = written_[static_cast<size_t>(id)];
  written_[static_cast<size_t>(id)] = true;
  return again ? Write::add : Write::set;
}

void ParamStore::begin_step() { written_.assign(table_->size(), false); }

void ParamStore::finish_gradients(Ops& ops) {
  for (ParamId id = 0; id < static_cast<ParamId>(table_->size()); ++id)
    if (!written_[static_cast<size_t>(id)]) ops.zero(grad(id));
}

namespace {

// Copies host values into rows [first, first + count) of a parameter, rounding to its dtype.
void copy_rows(Ops& ops, const Tensor& rows, const std::vector<float>& host) {
  if (rows.dtype == DType::f32) return ops.copy_in(rows, host.data());
  std::vector<bf16> rounded(host.size());
  for (size_t i = 0; i < host.size(); ++i) rounded[i] = bf16(host[i]);
  ops.copy_in(rows, rounded.data());
}

// Fills local rows [first, first + count) with the initial values of the slabs they belong to; padding stays 0.
void fill_rows(const Param& p, const std::vector<Slab>& slabs, uint64_t seed, int64_t first, int64_t count,
               std::vector<float>& out) {
  const int64_t width = p.shape.elements() / p.shape[0], local_width = p.local.elements() / p.local[0];
  out.assign(static_cast<size_t>(count * local_width), 0.0f);
  for (const Slab& s : slabs) {
    const bool by_column = p.partition.dim == 1;
    const int64_t local_row = p.partition.dim == 0 ? s.local_start : 0;
    const int64_t begin = std::max(first, local_row), end = std::min(first + count, local_row + s.count[0]);
    if (!by_column && begin < end) {
      const std::span<float> rows(out.data() + (begin - first) * width, static_cast<size_t>((end - begin) * width));
      initial_values(p, seed, (s.start[0] + begin - local_row) * width, rows);
    }
    for (int64_t r = begin; by_column && r < end; ++r) {
      const std::span<float> part(out.data() + (r - first) * local_width + s.local_start,
                                  static_cast<size_t>(s.count[1]));
      initial_values(p, seed, r * width + s.start[1], part);
    }
  }
}

}  // namespace

void ParamStore::initialize(Ops& ops, uint64_t seed) {
  const Tensor& target = master() ? master() : weights();
  ops.zero(target);  // the gaps between parameters
  std::vector<float> host;
  for (ParamId id = 0; id < static_cast<ParamId>(table_->size()); ++id) {
    const Param& p = (*table_)[id];
    const std::vector<Slab> slabs = table_->slabs_of(id);
    const int64_t step = std::max<int64_t>(1, (1 << 20) / (p.local.elements() / p.local[0]));
    for (int64_t row = 0; row < p.local[0]; row += step) {
      const int64_t count = std::min(step, p.local[0] - row);
      fill_rows(p, slabs, seed, row, count, host);
      copy_rows(ops, part(target, id).slice(row, count), host);
    }
  }
  for (const Tensor& state : {moment1(), moment2(), grads()})
    if (state) ops.zero(state);
  refresh_weights(ops);
}

void ParamStore::round_weights(Ops& ops, uint64_t seed, int64_t step) {
  for (const Param& p : *table_) {
    const auto part = [&](const Tensor& flat) { return flat.slice(p.offset, p.local_elements()); };
    ops.round_stochastically(part(weights_), part(master_),
                             {seed, Philox::name_id(p.name), static_cast<uint32_t>(step)});
  }
  ops.weights_changed();
}

void ParamStore::refresh_weights(Ops& ops) {
  if (master() && compute_ != DType::f32) ops.cast(weights_, master_);
  ops.weights_changed();
}

}  // namespace fp
