#include "exec/matrix_update.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "exec/state_stream.h"
#include "optim/muon.h"

namespace fp {
namespace {

int64_t sum_of(const std::vector<int64_t>& counts) { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }

}  // namespace

std::vector<MuonMatrix> muon_matrices(const ParamTable& table) {
  std::vector<MuonMatrix> list;
  for (const ParamUnit& u : table.units())
    for (ParamId id = u.first; id <= u.last; ++id) {
      const Param& p = table[id];
      if (!p.matrix) continue;
      if (p.partition.dim != 0) {
        list.push_back({id, 0, p.shape[0], p.shape[1]});
        continue;
      }
      int64_t row = 0;
      for (const Piece& piece : p.partition.pieces) {
        list.push_back({id, row, piece.extent, p.shape[1]});
        row += piece.extent;
      }
    }
  return list;
}

std::vector<int> balanced_owners(std::span<const double> costs, int ranks) {
  std::vector<size_t> order(costs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return costs[a] > costs[b]; });
  std::vector<double> loads(static_cast<size_t>(ranks));
  std::vector<int> owners(costs.size());
  for (const size_t i : order) {
    const auto least = std::ranges::min_element(loads);
    *least += costs[i];
    owners[i] = static_cast<int>(least - loads.begin());
  }
  return owners;
}

std::vector<MatrixRound> matrix_rounds(std::span<const MuonMatrix> all, int ranks) {
  const auto size = [](const MuonMatrix& m) { return m.rows * m.cols; };
  int64_t limit = 0;
  for (const MuonMatrix& m : all) limit = std::max(limit, size(m) * ranks);
  std::vector<MatrixRound> rounds;
  for (size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    std::vector<double> costs;
    for (int64_t total = 0; end < all.size() && total + size(all[end]) <= limit; ++end) {
      total += size(all[end]);
      costs.push_back(orthogonalize_flops(all[end].rows, all[end].cols));
    }
    rounds.push_back({all.subspan(begin, end - begin), balanced_owners(costs, ranks)});
  }
  return rounds;
}

MatrixUpdate::MatrixUpdate(const ModelEnv& env, Group& group, std::vector<ParamTable> tables)
    : env_(&env), group_(&group), tables_(std::move(tables)) {
  const std::vector<MuonMatrix> all = muon_matrices(env.params->table());
  for (const MatrixRound& r : matrix_rounds(all, group.size())) rounds_.push_back(make_round(r));
}

// Returns the ranks that may keep a part of a matrix.
std::vector<int> MatrixUpdate::keepers(const MuonMatrix& m) const {
  const auto tp = static_cast<int>(tables_.size());
  std::vector<int> ranks;
  for (int t = 0; t < tp; ++t) {
    const ParamTable& table = tables_[static_cast<size_t>(t)];
    const Param& p = table[m.id];
    if (!env_->params->state_sharded()) ranks.push_back(t);
    if (!env_->params->state_sharded() || p.local_elements() == 0) continue;
    const ParamUnit& u = table.units()[static_cast<size_t>(p.unit)];
    const int64_t first = p.offset - u.offset, size = table.shard_of(u, 0).count;
    for (int64_t shard = first / size; shard * size < first + p.local_elements(); ++shard)
      ranks.push_back(static_cast<int>(shard) * tp + t);
  }
  std::ranges::sort(ranks);
  return ranks;
}

// `once`: of values that several ranks have, only the first rank's copy is added.
void MatrixUpdate::add_kept(int rank, const MuonMatrix& m, size_t number, bool once, std::vector<Kept>& list) const {
  const auto tp = static_cast<int>(tables_.size());
  const ParamTable& table = tables_[static_cast<size_t>(rank % tp)];
  const Param& p = table[m.id];
  const ParamUnit& u = table.units()[static_cast<size_t>(p.unit)];
  const IndexRange kept =
      env_->params->state_sharded() ? table.shard_of(u, rank / tp) : IndexRange{u.offset, u.elements};
  const int64_t begin = std::max<int64_t>(kept.first - p.offset, 0),
                end = std::min(kept.first + kept.count - p.offset, p.local_elements());
  if (begin >= end) return;
  std::vector<Slab> held;
  for (const Slab& s : table.slabs_of(m.id))
    if (s.first || !once) held.push_back(s);
  for (const Fragment& f : fragments(p.shape, p.local, p.partition.dim, held, begin, end - begin)) {
    const int64_t row = std::max(f.start[0], m.first), rows = std::min(f.start[0] + f.count[0], m.first + m.rows) - row;
    if (rows > 0)
      list.push_back(
          {rank, number, {row - m.first, f.start[1], rows, f.count[1], 0}, f.offset + (row - f.start[0]) * f.count[1]});
  }
}

// Adds the exchange of the parts of the matrices, or of the results. Buffers are ordered by rank, then by matrix.
void MatrixUpdate::add_exchange(Round& round, const MatrixRound& division, bool results) const {
  const auto& [matrices, owners] = division;
  const auto ranks = static_cast<size_t>(group_->size());
  const int me = group_->rank();
  std::vector<Kept> all;  // by matrix, then by rank
  for (size_t i = 0; i < matrices.size(); ++i)
    for (const int rank : keepers(matrices[i])) add_kept(rank, matrices[i], i, !results, all);
  std::vector<int64_t> of_keepers(ranks), of_owners(ranks), boxes(ranks);
  for (const Kept& k : all) {
    const auto owner = static_cast<size_t>(owners[k.matrix]);
    of_keepers[static_cast<size_t>(k.rank)] += k.box.elements();
    of_owners[owner] += k.box.elements();
    ++boxes[owner];
  }
  (results ? round.most.results_received : round.most.sent) = std::ranges::max(of_keepers);
  (results ? round.most.results_sent : round.most.received) = std::ranges::max(of_owners);
  round.most.norms = std::max(round.most.norms, std::ranges::max(boxes));

  std::vector<Held>& held = results ? round.results : round.parts;
  std::vector<int64_t>& with_owners = results ? round.result_receives : round.sends;
  with_owners.assign(ranks, 0);
  std::ranges::stable_sort(all, {}, [&](const Kept& k) { return owners[k.matrix]; });
  int64_t offset = 0;
  for (const Kept& k : all) {
    if (k.rank != me) continue;
    const int64_t n = k.box.elements();
    const ParamPart part{matrices[k.matrix].id, k.first, n};
    if (Held* const last = held.empty() ? nullptr : &held.back();
        last != nullptr && last->part.id == part.id && last->part.first + last->part.count == part.first)
      last->part.count += n;
    else
      held.push_back({part, offset});
    offset += n;
    with_owners[static_cast<size_t>(owners[k.matrix])] += n;
  }
  std::vector<int64_t>& with_keepers = results ? round.result_sends : round.receives;
  with_keepers.assign(ranks, 0);
  std::ranges::stable_sort(all, {}, &Kept::rank);
  offset = 0;
  for (Kept& k : all) {
    if (owners[k.matrix] != me) continue;
    k.box.offset = offset;
    offset += k.box.elements();
    with_keepers[static_cast<size_t>(k.rank)] += k.box.elements();
    const auto owned = std::ranges::find(round.owned, k.matrix, &Owned::number);
    (results ? owned->results : owned->parts).push_back(k.box);
  }
}

MatrixUpdate::Round MatrixUpdate::make_round(const MatrixRound& division) const {
  Round round;
  for (size_t i = 0; i < division.matrices.size(); ++i) {
    const MuonMatrix& m = division.matrices[i];
    if (division.owners[i] == group_->rank()) round.owned.push_back({i, m, {}, {}});
    round.most.matrix = std::max(round.most.matrix, m.rows * m.cols);
    round.most.workspace = std::max(round.most.workspace, orthogonalize_elements(m.rows, m.cols));
  }
  add_exchange(round, division, false);
  add_exchange(round, division, true);
  for (const Held& h : round.parts) round.end = std::max(round.end, flat_of(h.part).first + h.part.count);
  return round;
}

void MatrixUpdate::begin(const OptimizerSection& spec, double lr, SetWeights set_weights) {
  spec_ = spec;
  lr_ = lr;
  set_weights_ = std::move(set_weights);
  next_ = 0;
}

void MatrixUpdate::add(const IndexRange& flat, const Tensor& gradient) {
  const int64_t end = flat.first + flat.count;
  for (; next_ < rounds_.size(); ++next_) {
    const Round& round = rounds_[next_];
    if (!packed_) packed_ = buffer(round.most.sent);
    for (const Held& h : round.parts) {
      const IndexRange part = flat_of(h.part);
      const int64_t from = std::max(part.first, flat.first), to = std::min(part.first + part.count, end);
      if (from < to)
        env_->ops->copy(
            {packed_->slice(h.offset + from - part.first, to - from), gradient.slice(from - flat.first, to - from)});
    }
    if (round.end > end) return;
    launch();
  }
}

void MatrixUpdate::launch() {
  const Round& round = rounds_[next_];
  Flight flight{&round, std::move(packed_), {}, {}};
  packed_.reset();
  if (group_->size() == 1) {
    compute(round, flight.sent, flight.sent);
    return apply(round, flight.sent);
  }
  flight.received = buffer(round.most.received);
  flight.request = group_->start_all_to_all(flight.received->slice(0, sum_of(round.receives)),
                                            flight.sent->slice(0, sum_of(round.sends)), round.sends, round.receives);
  settle_parts();
  parts_ = std::move(flight);
}

void MatrixUpdate::settle_parts() {
  if (!parts_) return;
  Flight parts = std::move(*parts_);
  parts_.reset();
  const Round& round = *parts.round;
  parts.request.wait();
  parts.sent.reset();
  Flight results{&round, buffer(round.most.results_sent), {}, {}};
  compute(round, parts.received, results.sent);
  parts.received.reset();
  settle_results();
  results.received = buffer(round.most.results_received);
  results.request = group_->start_all_to_all(results.received->slice(0, sum_of(round.result_receives)),
                                             results.sent->slice(0, sum_of(round.result_sends)), round.result_sends,
                                             round.result_receives);
  results_ = std::move(results);
}

void MatrixUpdate::settle_results() {
  if (!results_) return;
  results_->request.wait();
  apply(*results_->round, results_->received);
  results_.reset();
}

void MatrixUpdate::finish() {
  add({std::numeric_limits<int64_t>::max(), 0}, {});  // rounds to which this rank gives nothing
  settle_parts();
  settle_results();
  set_weights_ = {};
}

std::vector<double> MatrixUpdate::norms(const Round& round, const Tensor& parts) const {
  std::vector<double> list(round.owned.size());
  std::vector<IndexRange> segments;
  for (const Owned& o : round.owned)
    for (const Box& b : o.parts) segments.push_back({b.offset, b.elements()});
  const ArenaTensor memory = buffer(round.most.norms);
  if (segments.empty()) return list;
  const Tensor sums = memory->slice(0, static_cast<int64_t>(segments.size()));
  env_->ops->sum_squares({sums, parts, segments});
  std::vector<float> host(segments.size());
  env_->ops->copy_out({host.data(), sums});
  for (size_t i = 0, at = 0; i < list.size(); ++i) {
    double sum = 0;
    for (size_t j = 0; j < round.owned[i].parts.size(); ++j) sum += static_cast<double>(host[at++]);
    list[i] = std::sqrt(sum);
  }
  return list;
}

void MatrixUpdate::compute(const Round& round, const Tensor& parts, const Tensor& results) const {
  Ops& ops = *env_->ops;
  const std::vector<double> norm = norms(round, parts);
  const ArenaTensor matrix = buffer(round.most.matrix),
                    workspace =
                        env_->arena->alloc(env_->params->compute(), {round.most.workspace}, MemoryClass::workspace);
  for (size_t i = 0; i < round.owned.size(); ++i) {
    const Owned& o = round.owned[i];
    const MuonMatrix& m = o.matrix;
    const Tensor whole = matrix->slice(0, m.rows * m.cols).reshaped({m.rows, m.cols});
    const auto rows = [&](const Box& b) { return whole.slice(b.row, b.rows); };
    const auto packed = [&](const Tensor& buffer, const Box& b) {
      return buffer.slice(b.offset, b.elements()).reshaped({b.rows, b.columns});
    };
    for (const Box& b : o.parts) ops.copy_columns({rows(b), b.column, packed(parts, b), 0, b.columns, Write::set});
    orthogonalize(ops, whole, norm[i], muon_scale(spec_.muon.scale, m.rows, m.cols), workspace);
    for (const Box& b : o.results) ops.copy_columns({packed(results, b), 0, rows(b), b.column, b.columns, Write::set});
  }
}

void MatrixUpdate::apply(const Round& round, const Tensor& results) const {
  std::vector<Subgroup> subgroups;
  std::vector<const Held*> held;  // by subgroup
  for (const Held& h : round.results) {
    append_master_subgroups(*env_->params, h.part, subgroups);
    held.resize(subgroups.size(), &h);
  }
  StateStream stream(*env_, subgroups, Subgroup::Slots::param);
  stream.run({[&](size_t i, const UpdateTensors& t) {
    const ParamPart& part = subgroups[i].parts.front();
    const Tensor update = results.slice(held[i]->offset + part.first - held[i]->part.first, part.count);
    env_->ops->scaled_add({t.param, t.param, update, 1.0 - lr_ * spec_.weight_decay, -lr_});
    if (set_weights_) set_weights_(part, t.param);
  }});
  stream.finish();
}

}  // namespace fp
