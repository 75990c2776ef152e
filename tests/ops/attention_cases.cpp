#include "attention_cases.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "compare.h"

namespace fp::test {

std::string AttentionCase::str() const {
  const AttentionSpec& s = spec;
  std::string text =
      fmt::format("B={} Tq={} Tk={} H={} K={} d={} {} scale={:.3g}", B, Tq, Tk, H, K, d, name_of(dtype), s.scale);
  if (s.window > 0) text += fmt::format(" window={}", s.window);
  if (s.q_offset + s.k_offset > 0) text += fmt::format(" offsets={},{}", s.q_offset, s.k_offset);
  if (s.block > 0)
    text += fmt::format(" block={} local={} stride={} step={} first_head={}", s.block, s.local_blocks,
                        s.vertical_stride, s.head_step, s.first_head);
  if (s.dropout.p > 0) text += fmt::format(" dropout={}", s.dropout.p);
  return text + (documents ? " documents" : "");
}

AttentionOperands::AttentionOperands(Case& c, const AttentionCase& a_, Pass pass, Write dq_write_, Write dkv_write_)
    : a(a_), dq_write(dq_write_), dkv_write(dkv_write_) {
  const Shape queries{a.B, a.Tq, a.H, a.d}, keys{a.B, a.Tk, a.K, a.d}, rows{a.B, a.H, a.Tq};
  q = &c.input("q", a.dtype, queries);
  k = &c.input("k", a.dtype, keys);
  v = &c.input("v", a.dtype, keys);
  std::vector<int32_t> starts, samples;
  for (int64_t b = 0; b < a.B; ++b) {
    samples.insert(samples.end(), {static_cast<int32_t>(1000 + b), static_cast<int32_t>(b)});
    // Documents of 5, 6, 7, ... positions: some shorter, some longer than any block.
    int64_t start = 0, length = 5 + b;
    for (int64_t p = 0; p < a.spec.q_offset + a.Tq; ++p) {
      if (p == start + length) start = p, length = length * 3 / 2 + 1;
      if (p >= a.spec.q_offset) starts.push_back(static_cast<int32_t>(start));
    }
  }
  doc_start = a.documents ? &c.ids("doc_start", {a.B, a.Tq}, starts) : &c.none();
  sample_ids = a.spec.dropout.p > 0 ? &c.ids("sample_ids", {a.B, 2}, samples) : &c.none();
  o = &c.output("o", a.dtype, queries);
  lse = &c.output("lse", DType::f32, rows);
  if (pass == Pass::forward) return;
  c.run(oracle(), [this](Ops& ops) { forward(ops); });
  for (Operand* given : {o, lse}) {
    given->role = Role::input;
    given->value = given->result;
  }
  d_o = &c.input("d_o", a.dtype, queries);
  dq = &c.destination("dq", a.dtype, queries, dq_write);
  dk = &c.destination("dk", a.dtype, keys, dkv_write);
  dv = &c.destination("dv", a.dtype, keys, dkv_write);
}

// The scores and probabilities of one query, with their errors.
struct AttentionOperands::Row {
  struct Key {
    int64_t j;
    double score, p, factor, error;  // error: relative error of p
  };
  std::vector<Key> keys;
  double lse = -std::numeric_limits<double>::infinity();
  double score_error = 0.0, mean_error = 0.0;
};

AttentionOperands::Row AttentionOperands::row(int64_t b, int64_t h, int64_t i) const {
  Row r;
  const AttentionSpec& s = a.spec;
  const int64_t p = s.q_offset + i;
  double largest = 0.0, maximum = -std::numeric_limits<double>::infinity(), sum = 0.0;
  for (int64_t j = 0; j < a.Tk; ++j) {
    const int64_t n = s.k_offset + j;
    if (!attends(s, h, p, n)) continue;
    if (a.documents && static_cast<double>(n) < doc_start->value[static_cast<size_t>(b * a.Tq + i)]) continue;
    double score = 0.0, magnitude = 0.0, factor = 1.0;
    for (int64_t e = 0; e < a.d; ++e) {
      const double product = q->value[at_query(b, i, h) + e] * k->value[at_key(b, j, h) + e];
      score += s.scale * product;
      magnitude += std::abs(s.scale * product);
    }
    if (s.dropout.p > 0)
      factor = dropout_factor(s.dropout, dropout_key(s.dropout, static_cast<uint32_t>(s.first_head + h)),
                              static_cast<uint32_t>(n), static_cast<uint32_t>(p),
                              static_cast<uint32_t>(sample_ids->value[2 * b]),
                              static_cast<uint32_t>(sample_ids->value[2 * b + 1]));
    largest = std::max(largest, magnitude);
    maximum = std::max(maximum, score);
    r.keys.push_back({j, score, 0.0, factor, 0.0});
  }
  for (const Row::Key& key : r.keys) sum += std::exp(key.score - maximum);
  r.lse = maximum + std::log(sum);
  r.score_error = sum_error(a.d + 2, largest);
  for (Row::Key& key : r.keys) {
    key.p = std::exp(key.score - r.lse);
    key.error = 2 * r.score_error + kFunction * (1.0 + std::min(std::abs(key.score - r.lse), 100.0));
    r.mean_error += key.p * key.error;
  }
  return r;
}

void AttentionOperands::bound_forward() const {
  const double probability_rounding = a.dtype == DType::bf16 ? unit_of(DType::bf16) : 0.0;
  o->bound.assign(o->value.size(), 0.0);
  lse->bound.assign(lse->value.size(), 0.0);
  for (int64_t b = 0; b < a.B; ++b)
    for (int64_t h = 0; h < a.H; ++h)
      for (int64_t i = 0; i < a.Tq; ++i) {
        const Row r = row(b, h, i);
        if (r.keys.empty()) continue;
        const auto n = static_cast<int64_t>(r.keys.size());
        const double sum = r.mean_error + sum_error(n, 1.0);
        lse->bound[at_lse(b, h, i)] = sum + 2 * kUnit * std::abs(r.lse);
        for (const Row::Key& key : r.keys)
          for (int64_t e = 0; e < a.d; ++e)
            o->bound[at_query(b, i, h) + e] += key.p * key.factor * std::abs(v->value[at_key(b, key.j, h) + e]) *
                                               (key.error + sum + sum_error(n, 1.0) + probability_rounding);
      }
}

void AttentionOperands::bound_backward() const {
  const double rounding = a.dtype == DType::bf16 ? unit_of(DType::bf16) : 0.0;
  for (Operand* out : {dq, dk, dv}) out->bound.assign(out->value.size(), 0.0);
  const double over_keys = sum_error(a.Tk, 1.0), over_queries = sum_error(a.Tq * (a.H / a.K), 1.0);
  for (int64_t b = 0; b < a.B; ++b)
    for (int64_t h = 0; h < a.H; ++h)
      for (int64_t i = 0; i < a.Tq; ++i) {
        const Row r = row(b, h, i);
        const double* dout = &d_o->value[at_query(b, i, h)];
        double delta = 0.0, delta_magnitude = 0.0;
        for (int64_t e = 0; e < a.d; ++e) {
          const double product = dout[e] * o->value[at_query(b, i, h) + e];
          delta += product;
          delta_magnitude += std::abs(product);
        }
        for (const Row::Key& key : r.keys) {
          double dp = 0.0, dp_magnitude = 0.0;
          for (int64_t e = 0; e < a.d; ++e) {
            const double product = key.factor * dout[e] * v->value[at_key(b, key.j, h) + e];
            dp += product;
            dp_magnitude += std::abs(product);
          }
          const double ds = std::abs(a.spec.scale * key.p * (dp - delta));
          const double ds_error = ds * (key.error + rounding) +
                                  std::abs(a.spec.scale) * key.p * sum_error(a.d + 2, dp_magnitude + delta_magnitude);
          for (int64_t e = 0; e < a.d; ++e) {
            const size_t to_query = at_query(b, i, h) + e, to_key = at_key(b, key.j, h) + e;
            dq->bound[to_query] += std::abs(k->value[to_key]) * (ds_error + ds * over_keys);
            dk->bound[to_key] += std::abs(q->value[to_query]) * (ds_error + ds * over_queries);
            dv->bound[to_key] += key.p * key.factor * std::abs(dout[e]) * (key.error + rounding + over_queries);
          }
        }
      }
}

void check_backward(const AttentionCase& a, Write dq_write, Write dkv_write) {
  INFO(a.str() << (dq_write == Write::add ? ", dq added" : "") << (dkv_write == Write::add ? ", dk and dv added" : ""));
  Case c;
  const AttentionOperands o(c, a, AttentionOperands::Pass::backward, dq_write, dkv_write);
  o.bound_backward();
  c.check([&](Ops& ops) { o.backward(ops); });
}

void check_both_passes(const AttentionCase& a) {
  INFO(a.str());
  {
    Case c;
    const AttentionOperands o(c, a, AttentionOperands::Pass::forward);
    o.bound_forward();
    c.check([&](Ops& ops) { o.forward(ops); });
  }
  check_backward(a, Write::set, Write::set);
}

namespace {

// Chooses from lists pseudo-randomly, the same on every machine.
class Chooser {
 public:
  explicit Chooser(uint32_t seed) : key_(Philox::key(seed, Purpose::sampling)) {}
  int64_t below(int64_t n) { return Philox::block({count_++, 0, 0, 0}, key_)[0] % n; }
  int64_t of(std::initializer_list<int64_t> list) { return list.begin()[below(static_cast<int64_t>(list.size()))]; }

 private:
  Philox::Key key_;
  uint32_t count_ = 0;
};

void choose_mask(AttentionCase& a, Chooser& choose, int kind) {
  AttentionSpec& s = a.spec;
  if (kind == 1 || kind == 5) s.window = choose.of({1, 7, 33, 64, a.Tk});
  if (kind == 2 || kind == 6) {
    s.block = choose.of({4, 16, 64});
    s.local_blocks = choose.of({1, 2, 3});
    s.vertical_stride = choose.of({2, 3, 4});
    s.head_step = choose.of({0, 1, 2});
    s.first_head = choose.of({0, 3});
  }
  a.documents = kind == 3 || kind == 5 || kind == 6;
  if (kind == 4) s.q_offset = choose.of({1, 64, a.Tk}), s.k_offset = choose.of({0, 3, 32});
  if (kind == 7) s.q_offset = 0, s.k_offset = a.Tk / 2;  // the first queries see no key
  if (kind == 4 || kind == 7) a.Tk = choose.of({1, a.Tk, a.Tk + 17});
  if (choose.below(3) == 0) s.dropout = {choose.of({1, 5}) * 0.1, 99, Purpose::attention_dropout, 3};
}

}  // namespace

std::vector<AttentionCase> attention_cases(int count, int64_t longest, uint32_t seed) {
  Chooser choose(seed);
  std::vector<AttentionCase> cases;
  for (int i = 0; i < count; ++i) {
    AttentionCase a;
    a.dtype = i % 2 ? DType::bf16 : DType::f32;
    a.Tq = longest > 130 ? longest : choose.of({1, 2, 7, 63, 64, 65, 130});
    a.Tq = std::min(a.Tq, longest);
    a.Tk = a.Tq;
    a.d = choose.of({8, 16, 40, 64, 80, 96, 128, 256});
    a.K = choose.of({1, 2, 3});
    a.H = a.K * choose.of({1, 2, 3, 8});
    a.B = choose.of({1, 2, 3});
    if (longest > 130) a.B = 1, a.K = 1, a.H = 2;
    a.spec.scale = choose.below(4) == 0 ? 1.0 / static_cast<double>(a.d) : 1.0 / std::sqrt(static_cast<double>(a.d));
    choose_mask(a, choose, i / 2 % 8);
    cases.push_back(a);
  }
  return cases;
}

}  // namespace fp::test
