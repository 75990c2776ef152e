#include "ops/ref/ref_ops.h"
#include "ops/ref/values.h"

namespace fp {
namespace {

using ref::Values;

double dot(const double* a, const double* b, int64_t n) {
  double sum = 0.0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// Dense attention, one (sample, head, query) at a time.
struct Core {
  Core(const Tensor& q_, const Tensor& k_, const Tensor& v_, const Tensor& doc_start_, const Tensor& sample_ids_,
       const AttentionSpec& spec_)
      : q(ref::load(q_)),
        k(ref::load(k_)),
        v(ref::load(v_)),
        doc_start(doc_start_),
        sample_ids(sample_ids_),
        spec(spec_),
        B(q_.shape[0]),
        Tq(q_.shape[1]),
        H(q_.shape[2]),
        d(q_.shape[3]),
        Tk(k_.shape[1]),
        K(k_.shape[2]) {}

  int64_t at_query(int64_t b, int64_t i, int64_t h) const { return ((b * Tq + i) * H + h) * d; }
  int64_t at_key(int64_t b, int64_t j, int64_t h) const { return ((b * Tk + j) * K + h / (H / K)) * d; }
  int64_t at_lse(int64_t b, int64_t i, int64_t h) const { return (b * H + h) * Tq + i; }

  bool sees(int64_t b, int64_t i, int64_t h, int64_t j) const {
    const int64_t p = spec.q_offset + i, n = spec.k_offset + j;
    if (doc_start && n < doc_start.ptr<int32_t>()[b * Tq + i]) return false;
    return attends(spec, h, p, n);
  }
  double score(int64_t b, int64_t i, int64_t h, int64_t j) const {
    return spec.scale * dot(&q[at_query(b, i, h)], &k[at_key(b, j, h)], d);
  }
  double kept(int64_t b, int64_t i, int64_t h, int64_t j) const {
    if (spec.dropout.p == 0.0) return 1.0;
    const ref::SampleId sample = ref::sample_id(sample_ids, b);
    return dropout_factor(spec.dropout, dropout_key(spec.dropout, static_cast<uint32_t>(spec.first_head + h)),
                          static_cast<uint32_t>(spec.k_offset + j), static_cast<uint32_t>(spec.q_offset + i),
                          sample.low, sample.high);
  }

  template <class Visit>
  void for_each_query(Visit&& visit) const {
    for (int64_t b = 0; b < B; ++b)
      for (int64_t h = 0; h < H; ++h)
        for (int64_t i = 0; i < Tq; ++i) visit(b, i, h);
  }

  Values q, k, v;
  Tensor doc_start, sample_ids;
  AttentionSpec spec;
  int64_t B, Tq, H, d, Tk, K;
};

}  // namespace

void RefOps::run(const calls::Attention& call) {
  const Core c(call.q, call.k, call.v, call.doc_start, call.sample_ids, call.spec);
  Values O(c.q.size()), LSE(static_cast<size_t>(call.lse.elements()), -ref::kInfinity),
      scores(static_cast<size_t>(c.Tk));
  c.for_each_query([&](int64_t b, int64_t i, int64_t h) {
    double maximum = -ref::kInfinity, sum = 0.0;
    std::vector<int64_t> keys;
    for (int64_t j = 0; j < c.Tk; ++j)
      if (c.sees(b, i, h, j)) {
        keys.push_back(j);
        scores[j] = c.score(b, i, h, j);
        maximum = std::max(maximum, scores[j]);
      }
    if (keys.empty()) return;
    for (const int64_t j : keys) sum += std::exp(scores[j] - maximum);
    LSE[c.at_lse(b, i, h)] = maximum + std::log(sum);
    for (const int64_t j : keys) {
      const double p = std::exp(scores[j] - maximum) / sum * c.kept(b, i, h, j);
      for (int64_t e = 0; e < c.d; ++e) O[c.at_query(b, i, h) + e] += p * c.v[c.at_key(b, j, h) + e];
    }
  });
  ref::store(call.o, O);
  ref::store(call.lse, LSE);
}

void RefOps::run(const calls::AttentionMerge& call) {
  Values O = ref::load(call.o), LSE = ref::load(call.lse);
  const Values part = ref::load(call.o_part), lse_of_part = ref::load(call.lse_part);
  const int64_t T = call.o.shape[1], H = call.o.shape[2], d = call.o.shape[3];
  for (int64_t row = 0; row < call.o.rows(); ++row) {
    const int64_t token = row / H, at = (token / T * H + row % H) * T + token % T;
    const double a = LSE[at], b = lse_of_part[at], top = std::max(a, b);
    const double l = top == -ref::kInfinity ? top : top + std::log(std::exp(a - top) + std::exp(b - top));
    const auto weighted = [l](double side, double x) { return side == -ref::kInfinity ? 0.0 : std::exp(side - l) * x; };
    for (int64_t i = row * d; i < (row + 1) * d; ++i) O[i] = weighted(a, O[i]) + weighted(b, part[i]);
    LSE[at] = l;
  }
  ref::store(call.o, O);
  ref::store(call.lse, LSE);
}

void RefOps::run(const calls::AttentionBackward& call) {
  const Core c(call.q, call.k, call.v, call.doc_start, call.sample_ids, call.spec);
  const Values DO = ref::load(call.d_o), O = ref::load(call.o), LSE = ref::load(call.lse);
  Values DQ(c.q.size()), DK(c.k.size()), DV(c.v.size());
  c.for_each_query([&](int64_t b, int64_t i, int64_t h) {
    const int64_t row = c.at_query(b, i, h);
    const double delta = dot(&DO[row], &O[row], c.d);  // sum over all keys of p * dp
    for (int64_t j = 0; j < c.Tk; ++j) {
      if (!c.sees(b, i, h, j)) continue;
      const int64_t key = c.at_key(b, j, h);
      const double p = std::exp(c.score(b, i, h, j) - LSE[c.at_lse(b, i, h)]), kept = c.kept(b, i, h, j);
      const double dp = kept * dot(&DO[row], &c.v[key], c.d), ds = call.spec.scale * p * (dp - delta);
      for (int64_t e = 0; e < c.d; ++e) {
        DV[key + e] += p * kept * DO[row + e];
        DQ[row + e] += ds * c.k[key + e];
        DK[key + e] += ds * c.q[row + e];
      }
    }
  });
  ref::store(call.dq, DQ, call.dq_write);
  ref::store(call.dk, DK, call.dkv_write);
  ref::store(call.dv, DV, call.dkv_write);
}

}  // namespace fp
