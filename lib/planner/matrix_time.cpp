#include "planner/matrix_time.h"

#include <algorithm>
#include <map>

#include "exec/matrix_update.h"
#include "model/architecture.h"
#include "optim/muon.h"
#include "planner/timeline.h"

namespace fp {
namespace {

// The matrices of this number of equal layers.
std::vector<MuonMatrix> matrices_of(ModelSection model, int64_t layers) {
  model.layers = 1;
  ParamTable table;
  declare_parameters(model, table);
  const std::vector<MuonMatrix> one = muon_matrices(table);
  std::vector<MuonMatrix> all;
  for (int64_t l = 0; l < layers; ++l) all.insert(all.end(), one.begin(), one.end());
  return all;
}

// Times of what the owner of a matrix does with it, by shape.
class MatrixTimes {
 public:
  MatrixTimes(const CostModel& costs, CountingOps& ops, DType compute) : costs_(costs), ops_(ops), compute_(compute) {}

  double of(const MuonMatrix& m) {
    const auto [known, added] = seconds_.try_emplace({m.rows, m.cols});
    if (added) known->second = measure(m.rows, m.cols);
    return known->second;
  }

 private:
  double measure(int64_t rows, int64_t cols) {
    Arena arena;
    Timeline clock(costs_);
    ops_.observe(clock);
    const ArenaTensor x = arena.alloc(DType::f32, {rows, cols}),
                      workspace = arena.alloc(compute_, {orthogonalize_elements(rows, cols)});
    for (int copies = 0; copies < 2; ++copies) ops_.copy_columns({x, 0, x, 0, cols, Write::set});
    orthogonalize(ops_, x, 1.0, 1.0, workspace);
    ops_.stop_observing(clock);
    return clock.now();
  }

  const CostModel& costs_;
  CountingOps& ops_;
  DType compute_;
  std::map<std::pair<int64_t, int64_t>, double> seconds_;
};

}  // namespace

double matrix_update_seconds(const RunSpec& spec, const Mesh& mesh, const CostModel& costs, CountingOps& ops,
                             int pipeline_rank, int64_t layers) {
  if (spec.optimizer.kind != OptimizerKind::muon) return 0;
  std::vector<int> ranks;
  const int rank = mesh.rank_of({pipeline_rank, 0, 0, 0});
  for (const int d : spec.parallel.zero_stage > 0 ? mesh.data(rank) : std::vector{rank})
    for (const int t : mesh.tensor(d)) ranks.push_back(t);
  const auto n = static_cast<double>(ranks.size());
  const std::vector<MuonMatrix> all = matrices_of(spec.model, layers);
  MatrixTimes times(costs, ops, spec.precision.compute);
  double elements = 0, seconds = 0, last = 0;
  for (const MatrixRound& round : matrix_rounds(all, static_cast<int>(ranks.size()))) {
    std::vector<double> loads(ranks.size());
    double here = 0;
    for (size_t i = 0; i < round.owners.size(); ++i) {
      loads[static_cast<size_t>(round.owners[i])] += times.of(round.matrices[i]);
      here += static_cast<double>(round.matrices[i].rows * round.matrices[i].cols);
    }
    elements += here;
    const double compute = std::ranges::max(loads);
    const auto sent = static_cast<int64_t>(4 * here / n * (n - 1) / n);
    const double exchange = ranks.size() > 1 ? 2 * costs.comm_seconds(CommKind::all_to_all, ranks, sent) : 0;
    seconds += costs.cluster().overlaps ? std::max(compute, exchange) : compute + exchange;
    last = exchange;
  }
  // The first round's parts and the last one's results travel while nothing is computed.
  if (costs.cluster().overlaps) seconds += last;
  // Beside AdamW's two passes: the momentum's two updates, the packing of gradients and the step itself.
  constexpr double kBytes = 28;
  return seconds + costs.op_seconds({"scaled_add", 0, kBytes * elements / n, 0, 0, 0, DType::f32});
}

}  // namespace fp
