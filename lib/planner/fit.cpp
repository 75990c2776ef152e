#include "planner/fit.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/median.h"
#include "planner/costs.h"

namespace fp {
namespace {

using Row = std::vector<double>;

// An op in a compute type, and the position of its coefficients among the unknowns.
struct Term {
  std::string op, compute;
  bool product = false;
  size_t first = 0;       // overhead; then 1/rate and its half sizes; or seconds per byte, per flop and per score
  double best_flops = 0;  // highest FLOP/s of any call
  size_t count() const { return product ? 5 : 4; }
};

// The factors on the term's coefficients in the time of a work.
Row features(const OpWork& w) {
  if (w.m == 0) return {1, w.bytes, w.flops, w.scores};
  const auto per = [&](int64_t size) { return w.flops / static_cast<double>(size); };
  return {1, w.flops, per(w.m), per(w.n), per(w.k)};
}

std::vector<Term> terms_of(const std::vector<OpSample>& samples) {
  std::vector<Term> terms;
  for (const OpSample& s : samples)
    for (const OpWork& w : s.works) {
      auto at = std::ranges::find_if(terms,
                                     [&](const Term& t) { return t.op == w.op && t.compute == compute_name(w.dtype); });
      if (at == terms.end()) {
        terms.push_back({std::string(w.op), std::string(compute_name(w.dtype)), w.m > 0});
        at = terms.end() - 1;
      }
      at->best_flops = std::max(at->best_flops, w.flops / s.seconds);
    }
  std::ranges::sort(terms, {}, [](const Term& t) { return std::tuple(!t.product, t.op, t.compute); });
  size_t next = 0;
  for (Term& t : terms) t.first = std::exchange(next, next + t.count());
  return terms;
}

const Term& term_of(const std::vector<Term>& terms, const OpWork& w) {
  return *std::ranges::find_if(terms,
                               [&](const Term& t) { return t.op == w.op && t.compute == compute_name(w.dtype); });
}

// Returns a rate in `unit` a second from the seconds of one; 0, no limit, for what is faster than any device.
double inverse(double seconds, double unit) {
  constexpr double kLeast = 1e-18;
  return seconds > kLeast ? 1 / (seconds * unit) : 0;
}

OpRates op_rates(std::string op, std::string compute, const double* x) {
  return {std::move(op), std::move(compute), inverse(x[1], 1e9), inverse(x[2], 1e12), x[0] * 1e6, inverse(x[3], 1e9)};
}

ProductRates product_rates(const Term& t, const double* x) {
  return {t.op, t.compute, inverse(x[1], 1e12), x[2] / x[1], x[3] / x[1], x[4] / x[1], x[0] * 1e6};
}

// A sample is `features` x unknowns = seconds. The error is relative to the geometric mean of the measured and the
// predicted time, so that under- and overestimates weigh the same.
Row fit(const std::vector<Row>& features_of, const std::vector<OpSample>& samples, const Row& lowest) {
  constexpr int kRounds = 4;
  Row predicted(samples.size()), x;
  for (size_t i = 0; i < samples.size(); ++i) predicted[i] = samples[i].seconds;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<Row> rows = features_of;
    Row right(samples.size());
    for (size_t i = 0; i < samples.size(); ++i) {
      const double weight = std::sqrt(samples[i].share) / std::sqrt(samples[i].seconds * predicted[i]);
      for (double& f : rows[i]) f *= weight;
      right[i] = samples[i].seconds * weight;
    }
    x = bounded_least_squares(rows, right, lowest);
    for (size_t i = 0; i < samples.size(); ++i)
      predicted[i] =
          std::max(std::inner_product(x.begin(), x.end(), features_of[i].begin(), 0.0), 0.1 * samples[i].seconds);
  }
  return x;
}

// Rates for ops that were not measured: those of all measured ops that move bytes.
OpRates fit_other(const std::vector<OpSample>& samples) {
  std::vector<Row> rows;
  std::vector<OpSample> fitted;
  for (const OpSample& s : samples) {
    const OpWork& w = s.works.front();
    if (s.works.size() != 1 || w.m > 0 || w.op.starts_with("attention") || w.op.find("quantize") != w.op.npos) continue;
    rows.push_back({1, w.bytes, 0, 0});
    fitted.push_back(s);
  }
  if (rows.empty()) return {"other", "", 0, 0, 0, 0};
  return op_rates("other", "", fit(rows, fitted, Row(4, 0.0)).data());
}

double predicted_seconds(const OpSample& s, const std::vector<Term>& terms, const Row& x) {
  double seconds = 0;
  for (const OpWork& w : s.works) {
    const Row f = features(w);
    const size_t first = term_of(terms, w).first;
    for (size_t i = 0; i < f.size(); ++i) seconds += f[i] * x[first + i];
  }
  return seconds;
}

// The error over the calls whose first work belongs to this term.
FitError error_of(const Term& term, const std::vector<OpSample>& samples, const std::vector<Term>& terms,
                  const Row& x) {
  FitError e{term.op, term.compute};
  Row relative;
  double measured = 0, expected = 0;
  for (const OpSample& s : samples) {
    if (s.works.front().op != term.op || compute_name(s.works.front().dtype) != term.compute) continue;
    const double seconds = predicted_seconds(s, terms, x);
    relative.push_back(std::abs(seconds / s.seconds - 1));
    measured += static_cast<double>(s.calls) * s.seconds;
    expected += static_cast<double>(s.calls) * seconds;
  }
  e.samples = static_cast<int64_t>(relative.size());
  if (relative.empty()) return e;  // measured only as a part of fused calls
  e.typical = median(relative);
  e.of_seconds = expected / measured - 1;
  return e;
}

}  // namespace

Row bounded_least_squares(const std::vector<Row>& rows, const Row& right, const Row& lowest) {
  const size_t n = lowest.size();
  std::vector<Row> gram(n, Row(n, 0.0));
  Row moment(n, 0.0), x = lowest;
  for (size_t r = 0; r < rows.size(); ++r)
    for (size_t i = 0; i < n; ++i) {
      if (rows[r][i] == 0) continue;
      moment[i] += rows[r][i] * right[r];
      for (size_t j = 0; j < n; ++j) gram[i][j] += rows[r][i] * rows[r][j];
    }
  // An op shares calls with few others, so the matrix is sparse.
  std::vector<std::vector<size_t>> coupled(n);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j)
      if (gram[i][j] != 0) coupled[i].push_back(j);
  // Coordinate descent: slow, but it converges to the minimum.
  constexpr int kMostSweeps = 200'000;
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    double moved = 0;
    for (size_t i = 0; i < n; ++i) {
      if (gram[i][i] == 0) continue;
      double slope = moment[i];
      for (const size_t j : coupled[i]) slope -= gram[i][j] * x[j];
      const double to = std::max(lowest[i], x[i] + slope / gram[i][i]);
      moved = std::max(moved, std::abs(to - x[i]) * std::sqrt(gram[i][i]));  // in units of the right-hand side
      x[i] = to;
    }
    if (moved < 1e-9) break;
  }
  return x;
}

FittedRates fit_rates(const std::vector<OpSample>& samples, const PeakRates& peaks) {
  FP_CHECK(!samples.empty(), "nothing was measured");
  const std::vector<Term> terms = terms_of(samples);
  const size_t unknowns = terms.back().first + terms.back().count();
  Row lowest(unknowns, 0.0);
  // No product may be much faster than the fastest that was measured, or faster than the device.
  for (const Term& t : terms) {
    const double peak = t.compute == "bf16" ? peaks.bf16 : peaks.fp32, most = 1.5 * t.best_flops;
    if (t.product) lowest[t.first + 1] = 1 / (peak > 0 ? std::min(peak, most) : most);
  }
  std::vector<Row> rows(samples.size(), Row(unknowns, 0.0));
  for (size_t i = 0; i < samples.size(); ++i)
    for (const OpWork& w : samples[i].works) {
      const Row f = features(w);
      const size_t first = term_of(terms, w).first;
      for (size_t j = 0; j < f.size(); ++j) rows[i][first + j] += f[j];
    }
  const Row x = fit(rows, samples, lowest);
  FittedRates fitted;
  for (const Term& t : terms) {
    if (t.product)
      fitted.products.push_back(product_rates(t, &x[t.first]));
    else
      fitted.ops.push_back(op_rates(t.op, t.compute, &x[t.first]));
    fitted.errors.push_back(error_of(t, samples, terms, x));
  }
  fitted.ops.push_back(fit_other(samples));
  return fitted;
}

std::vector<LinkRates> fit_links(const std::vector<LinkSample>& samples) {
  std::vector<std::pair<std::string, std::string>> lines;
  for (const LinkSample& s : samples)
    if (std::ranges::find(lines, std::pair(s.between, s.kind)) == lines.end()) lines.emplace_back(s.between, s.kind);
  std::vector<LinkRates> links;
  for (const auto& [between, kind] : lines) {
    std::vector<Row> rows;
    double fastest = 0;  // bytes per second
    for (const LinkSample& s : samples) {
      if (s.between != between || s.kind != kind) continue;
      const auto steps = static_cast<double>(std::bit_width(static_cast<unsigned>(s.ranks - 1)));
      rows.push_back({steps / s.seconds, static_cast<double>(s.sent) / s.seconds});
      fastest = std::max(fastest, rows.back()[1]);
    }
    const Row x = bounded_least_squares(rows, Row(rows.size(), 1.0), {0.0, 1 / (1.5 * fastest)});
    links.push_back({between, kind, x[0] * 1e6, inverse(x[1], 1e9)});
  }
  return links;
}

}  // namespace fp
