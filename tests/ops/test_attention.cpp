#include <catch2/catch.hpp>
#include <limits>

#include "attention_cases.h"
#include "compare.h"

using namespace fp;
using namespace fp::test;

namespace {

using Pass = AttentionOperands::Pass;
}  // namespace

TEST_CASE("attention agrees with the oracle on short sequences") {
  for (const AttentionCase& a : attention_cases(fewer_if_slow(64, 12), 65, 1)) check_both_passes(a);
}

TEST_CASE("attention agrees with the oracle on longer sequences", "[slow]") {
  for (const AttentionCase& a : attention_cases(16, 130, 2)) check_both_passes(a);
  for (const AttentionCase& a : attention_cases(fewer_if_slow(16, 4), 300, 3)) check_both_passes(a);
}

TEST_CASE("attention agrees with the oracle in more cases than every suite runs", "[nightly]") {
  for (const AttentionCase& a : attention_cases(64, 65, 1)) check_both_passes(a);
  for (const AttentionCase& a : attention_cases(16, 300, 3)) check_both_passes(a);
}

TEST_CASE("attention agrees with the oracle at a thousand tokens", "[nightly]") {
  // Other masks than the causal one are emulated at 300.
  for (const AttentionCase& a : attention_cases(fewer_if_slow(8, 2), 1030, 4)) check_both_passes(a);
}

TEST_CASE("attention_backward adds to its gradients") {
  int i = 0;
  for (const AttentionCase& a : attention_cases(fewer_if_slow(32, 12), 65, 5)) {
    const Write dq_write = i % 3 == 0 ? Write::set : Write::add, dkv_write = i % 3 == 1 ? Write::set : Write::add;
    check_backward(a, dq_write, dkv_write);
    ++i;
  }
  // A head of 250 columns, which no access of 16 bytes divides, and one of 256, of which two blocks take a half each.
  for (const int64_t d : {250, 256}) {
    AttentionCase a{
        .B = 1, .Tq = 20, .Tk = 20, .H = 2, .K = 1, .d = d, .spec = {}, .documents = false, .dtype = DType::bf16};
    a.spec.scale = 0.06;
    check_backward(a, Write::add, Write::add);
  }
}

TEST_CASE("attention_backward over chunks of keys adds up to the dq of all keys") {
  const int64_t kLength = 24, kCut = 16;
  AttentionCase a{.B = 1,
                  .Tq = kLength,
                  .Tk = kLength,
                  .H = 2,
                  .K = 1,
                  .d = 8,
                  .spec = {},
                  .documents = false,
                  .dtype = DType::f32};
  a.spec.scale = 0.35;
  Case c;
  const AttentionOperands all(c, a, Pass::backward);
  Operand& dq = c.output("dq of chunks", DType::f32, all.q->shape);
  Operand& dk = c.output("dk of chunks", DType::f32, all.k->shape);
  Operand& dv = c.output("dv of chunks", DType::f32, all.v->shape);
  std::vector<Backend> every = backends();
  every.push_back(oracle());
  for (const Backend& backend : every) {
    INFO(backend.name);
    c.run(backend, [&](Ops& ops) {
      all.backward(ops);
      for (const int64_t first : {int64_t{0}, kCut}) {
        // With one sample, a chunk of keys is contiguous.
        const auto keys = [&](const Tensor& t) {
          const int64_t count = first == 0 ? kCut : kLength - kCut;
          return t.reshaped({kLength, a.K, a.d}).slice(first, count).reshaped({1, count, a.K, a.d});
        };
        AttentionSpec spec = a.spec;
        spec.k_offset = first;
        ops.attention_backward({.dq = dq,
                                .dk = keys(dk),
                                .dv = keys(dv),
                                .d_o = *all.d_o,
                                .q = *all.q,
                                .k = keys(*all.k),
                                .v = keys(*all.v),
                                .o = *all.o,
                                .lse = *all.lse,
                                .spec = spec,
                                .dq_write = first == 0 ? Write::set : Write::add});
      }
    });
    double worst = 0.0;
    for (size_t i = 0; i < dq.result.size(); ++i) worst = std::max(worst, std::abs(dq.result[i] - all.dq->result[i]));
    CHECK(worst < 64 * kUnit * 8);
  }
}

TEST_CASE("attention decodes one query against a cache") {
  for_each_compute_type([](DType t) {
    for (const int64_t length : {1, 2, 63, 65, 300})
      for (const int64_t window : {0, 40}) {
        AttentionCase a{
            .B = 2, .Tq = 1, .Tk = length, .H = 4, .K = 2, .d = 64, .spec = {}, .documents = false, .dtype = t};
        a.spec.scale = 0.125;
        a.spec.q_offset = length - 1;
        a.spec.window = window;
        check_both_passes(a);
      }
  });
}

TEST_CASE("attention: a query that sees no key gives o = 0 and lse = -infinity") {
  for_each_compute_type([](DType t) {
    // Keys at positions 70.. and queries at 0..69: no query sees a key.
    AttentionCase a{.B = 1, .Tq = 70, .Tk = 65, .H = 2, .K = 1, .d = 16, .spec = {}, .documents = false, .dtype = t};
    a.spec.k_offset = 70;
    INFO(a.str());
    Case forward;
    const AttentionOperands f(forward, a, Pass::forward);
    forward.check([&](Ops& ops) { f.forward(ops); });
    CHECK(f.o->expected == std::vector<double>(f.o->value.size(), 0.0));
    CHECK(f.lse->expected == std::vector<double>(f.lse->value.size(), -kInfinity));
    Case backward;
    const AttentionOperands b(backward, a, Pass::backward);
    backward.check([&](Ops& ops) { b.backward(ops); });
    for (const Operand* o : {b.dq, b.dk, b.dv}) CHECK(o->expected == std::vector<double>(o->value.size(), 0.0));
  });
}

TEST_CASE("attention handles scores of ten thousand") {
  for_each_compute_type([](DType t) {
    for (const int64_t window : {0, 9}) {
      AttentionCase a{
          .B = 1, .Tq = 130, .Tk = 130, .H = 2, .K = 2, .d = 64, .spec = {}, .documents = false, .dtype = t};
      a.spec.scale = 1000.0;  // scores of about 8000
      a.spec.window = window;
      INFO(a.str());
      // With scores this far apart the probabilities are 0 or 1, whatever the error of the scores. Keys are chosen far
      // apart, so that no query has two close best scores.
      Case c;
      AttentionOperands o(c, a, Pass::forward);
      for (int64_t i = 0; i < o.k->elements(); ++i) {
        const int64_t j = i / (a.d * a.K), e = i % a.d;
        o.k->value[static_cast<size_t>(i)] = e == 0 ? static_cast<double>(j % 10) : 0.0;
        o.q->value[static_cast<size_t>(i)] = e == 0 ? 1.0 : 0.0;
      }
      o.bound_forward();
      c.check([&](Ops& ops) { o.forward(ops); });
      for (const double x : o.o->expected) CHECK(std::isfinite(x));
      for (const double x : o.lse->expected) CHECK(x > -1.0);
    }
  });
}

TEST_CASE("attention over chunks of keys, merged, equals attention over all keys") {
  const int64_t kLength = 37, kCut = 20;
  for (const int kind : {0, 1, 2, 3}) {
    AttentionCase whole{.B = 2,
                        .Tq = kLength,
                        .Tk = kLength,
                        .H = 4,
                        .K = 2,
                        .d = 8,
                        .spec = {},
                        .documents = kind == 3,
                        .dtype = DType::f32};
    whole.spec.scale = 0.4;
    if (kind == 1) whole.spec.window = 11;
    if (kind == 2) whole.spec.block = 4, whole.spec.local_blocks = 2, whole.spec.vertical_stride = 3;
    if (kind == 3) whole.spec.dropout = {0.3, 7, Purpose::attention_dropout, 1};
    INFO(whole.str());
    Case c;
    const AttentionOperands all(c, whole, Pass::backward);
    struct Part {
      Operand *k, *v, *o, *lse, *dq, *dk, *dv;
      AttentionSpec spec;
    };
    std::vector<Part> parts;
    for (const auto& [first, last] : {std::pair{int64_t{0}, kCut}, std::pair{kCut, kLength}}) {
      const Shape keys{whole.B, last - first, whole.K, whole.d}, queries = all.q->shape;
      const auto cut = [&, begin = first](const Operand& from) {
        const int64_t row = whole.K * whole.d, length = last - begin;
        return [&from, begin, row, length, kLength](double, int64_t i) {
          const int64_t b = i / (length * row), rest = i % (length * row);
          return from.value[static_cast<size_t>((b * kLength + begin) * row + rest)];
        };
      };
      Part p{&c.input("k", DType::f32, keys, cut(*all.k)),
             &c.input("v", DType::f32, keys, cut(*all.v)),
             &c.output("o", DType::f32, queries),
             &c.output("lse", DType::f32, all.lse->shape),
             &c.output("dq", DType::f32, queries),
             &c.output("dk", DType::f32, keys),
             &c.output("dv", DType::f32, keys),
             whole.spec};
      p.spec.k_offset = first;
      parts.push_back(p);
    }
    std::vector<Backend> every = backends();
    every.push_back(oracle());
    for (const Backend& backend : every) {
      INFO(backend.name);
      c.run(backend, [&](Ops& ops) {
        all.backward(ops);
        for (const Part& p : parts) {
          ops.attention({*p.o, *p.lse, *all.q, *p.k, *p.v, *all.doc_start, *all.sample_ids, p.spec});
          ops.attention_backward({*p.dq, *p.dk, *p.dv, *all.d_o, *all.q, *p.k, *p.v, *all.o, *all.lse, *all.doc_start,
                                  *all.sample_ids, p.spec});
        }
      });
      // Forward: weights exp(lse_part - lse). Backward: dq is the sum of the parts; dk and dv lie side by side.
      const double tolerance = 64 * kUnit * 8;
      double worst = 0.0;
      const auto differ = [&](double a, double b) { worst = std::max(worst, std::abs(a - b)); };
      for (size_t i = 0; i < all.o->value.size(); ++i) {
        const size_t row = i / whole.d, h = row % whole.H, token = row / whole.H;
        const size_t at = ((token / kLength) * whole.H + h) * kLength + token % kLength;
        const double l0 = parts[0].lse->result[at], l1 = parts[1].lse->result[at], top = std::max(l0, l1);
        const double lse = top + std::log(std::exp(l0 - top) + std::exp(l1 - top));
        differ(lse, all.lse->value[at]);
        differ(std::exp(l0 - lse) * parts[0].o->result[i] + std::exp(l1 - lse) * parts[1].o->result[i],
               all.o->value[i]);
        differ(parts[0].dq->result[i] + parts[1].dq->result[i], all.dq->result[i]);
      }
      const auto row = static_cast<size_t>(whole.K * whole.d);
      for (size_t i = 0; i < all.k->value.size(); ++i) {
        const size_t j = i / row % kLength, b = i / row / kLength;
        const Part& p = parts[j < kCut ? 0 : 1];
        const size_t length = j < kCut ? kCut : kLength - kCut,
                     at = (b * length + (j < kCut ? j : j - kCut)) * row + i % row;
        differ(p.dk->result[at], all.dk->result[i]);
        differ(p.dv->result[at], all.dv->result[i]);
      }
      CHECK(worst < tolerance);
    }
  }
}
