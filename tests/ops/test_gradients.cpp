// The oracle's backward passes against central differences of its forward passes.
#include <catch2/catch.hpp>

#include "compare.h"
#include "gradients.h"

using namespace fp;
using namespace fp::test;

namespace {

constexpr DType kF32 = DType::f32;

// Away from `kink`, so that a difference does not straddle it.
double away(double x, double kink) { return std::abs(x - kink) < 0.02 ? x + 0.05 : x; }

}  // namespace

TEST_CASE("gradient of linear") {
  const int64_t M = 3, N = 4, K = 5;
  Case c;
  const Operand &x = c.input("x", kF32, {M, K}), &w = c.input("w", kF32, {N, K}), &bias = c.input("bias", kF32, {N});
  const Operand &y = c.output("y", kF32, {M, N}), &dy = c.input("dy", kF32, {M, N});
  const Operand &dx = c.output("dx", kF32, {M, K}), &dw = c.output("dw", kF32, {N, K}), &db = c.output("db", kF32, {N});
  c.run(oracle(), [&](Ops& ops) {
    ops.linear_backward_input({dx, dy, w});
    ops.linear_backward_weight({dw, dy, x, Write::set});
    ops.bias_backward({db, dy, Write::set});
    check_gradients(
        [&] {
          ops.linear({y, x, w, bias});
        },
        [&] {
          return weighted({{&y, &dy}});
        },
        {{&x, &dx}, {&w, &dw}, {&bias, &db}});
  });
}

TEST_CASE("gradient of embedding, of ids and of positions") {
  const int64_t M = 6, V = 5, P = 7, h = 3;
  Case c;
  const Operand &ids = c.ids("ids", {M}, {0, 3, 3, 1, 0, 3}), &positions = c.ids("positions", {M}, {0, 1, 2, 0, 1, 6});
  const Operand &table = c.input("table", kF32, {V, h}), &places = c.input("positions_table", kF32, {P, h});
  const Operand &y = c.output("y", kF32, {M, h}), &dy = c.input("dy", kF32, {M, h});
  const Operand& dtable = c.inout("dtable", kF32, {V, h}, constant(0.0));
  const Operand& dplaces = c.inout("dpositions", kF32, {P, h}, constant(0.0));
  c.run(oracle(), [&](Ops& ops) {
    ops.embedding_backward({dtable, dy, ids, 10.0});
    ops.embedding_backward({dplaces, dy, positions, 1.0});
    check_gradients(
        [&] {
          ops.embedding({y, ids, table, positions, places, 10.0});
        },
        [&] {
          return weighted({{&y, &dy}});
        },
        {{&table, &dtable}, {&places, &dplaces}});
  });
}

TEST_CASE("gradient of norm, with and without residual and bias") {
  for (const Norm kind : {Norm::layernorm, Norm::rmsnorm})
    for (const bool full : {false, true}) {
      INFO((kind == Norm::layernorm ? "layernorm" : "rmsnorm") << (full ? " full" : ""));
      const NormSpec spec{kind, 1e-5};
      const int64_t M = 3, h = 7;
      Case c;
      const Operand& x = c.input("x", kF32, {M, h}, [](double n, int64_t) { return 2.0 * n + 1.0; });
      const Operand &residual = full ? c.input("residual", kF32, {M, h}) : c.none(),
                    &sum = full ? c.output("sum", kF32, {M, h}) : c.none();
      const Operand &gain = c.input("gain", kF32, {h}), &bias = full ? c.input("bias", kF32, {h}) : c.none();
      const Operand &y = c.output("y", kF32, {M, h}), &stats = c.output("stats", kF32, {M, 2});
      const Operand &dy = c.input("dy", kF32, {M, h}), &dx = c.output("dx", kF32, {M, h});
      const Operand &dgain = c.output("dgain", kF32, {h}), &dbias = full ? c.output("dbias", kF32, {h}) : c.none();
      c.run(oracle(), [&](Ops& ops) {
        const auto forward = [&] { ops.norm({y, sum, stats, x, residual, gain, bias, spec}); };
        forward();
        const Tensor& normed = full ? sum.tensor : x.tensor;
        ops.norm_backward_input({dx, dy, normed, stats, gain, spec, Write::set});
        ops.norm_backward_weight({dgain, dbias, dy, normed, stats, spec, Write::set});
        std::vector<Variable> variables{{&x, &dx}, {&gain, &dgain}};
        if (full) variables.insert(variables.end(), {{&residual, &dx}, {&bias, &dbias}});
        check_gradients(
            forward,
            [&] {
              return weighted({{&y, &dy}});
            },
            variables);
      });
    }
}

TEST_CASE("gradient of the activations") {
  for (const ActivationSpec& spec :
       {ActivationSpec{Activation::gelu, 0}, ActivationSpec{Activation::swiglu, 0},
        ActivationSpec{Activation::gegelu, 20.0}, ActivationSpec{Activation::gegelu, 0.75}}) {
    INFO("kind " << static_cast<int>(spec.kind) << " limit " << spec.limit);
    const int64_t M = 3, f = 10;
    Case c;
    const Operand& x = c.input("x", kF32, {M, spec.inputs(f)},
                               [&](double n, int64_t) { return away(away(1.5 * n, spec.limit), -spec.limit); });
    const Operand &y = c.output("y", kF32, {M, f}), &dy = c.input("dy", kF32, {M, f});
    const Operand& dx = c.output("dx", kF32, {M, spec.inputs(f)});
    c.run(oracle(), [&](Ops& ops) {
      ops.activation_backward({dx, dy, x, spec});
      check_gradients([&] { ops.activation({y, x, spec}); }, [&] { return weighted({{&y, &dy}}); }, {{&x, &dx}});
    });
  }
}

TEST_CASE("gradient of dropout is dropout of the gradient") {
  const int64_t B = 2, T = 3, C = 5;
  const Dropout spec{0.4, 11, Purpose::embedding_dropout, 0};
  Case c;
  const Operand &x = c.input("x", kF32, {B, T, C}), &dy = c.input("dy", kF32, {B, T, C});
  const Operand &y = c.output("y", kF32, {B, T, C}), &dx = c.output("dx", kF32, {B, T, C});
  const Operand& samples = c.ids("sample_ids", {B, 2}, {7, 0, 9, 1});
  c.run(oracle(), [&](Ops& ops) {
    ops.dropout({dx, dy, samples, 4, spec});
    check_gradients([&] { ops.dropout({y, x, samples, 4, spec}); }, [&] { return weighted({{&y, &dy}}); }, {{&x, &dx}});
  });
}

TEST_CASE("gradient of the QKV split, all layouts, with and without rotation") {
  for (const bool grouped : {false, true})
    for (const bool rotate : {false, true}) {
      INFO((grouped ? "grouped" : "blocked") << (rotate ? " rotated" : ""));
      const HeadLayout layout{4, 2, 6, grouped};
      const int64_t M = 3;
      Case c;
      const Operand &qkv = c.input("qkv", kF32, {M, layout.columns()}),
                    &dqkv = c.output("dqkv", kF32, {M, layout.columns()});
      const Operand &q = c.output("q", kF32, {M, 4, 6}), &k = c.output("k", kF32, {M, 2, 6}),
                    &v = c.output("v", kF32, {M, 2, 6});
      const Operand &dq = c.input("dq", kF32, {M, 4, 6}), &dk = c.input("dk", kF32, {M, 2, 6}),
                    &dv = c.input("dv", kF32, {M, 2, 6});
      const Operand &cos = rotate ? c.input("cos", kF32, {9, 3}) : c.none(),
                    &sin = rotate ? c.input("sin", kF32, {9, 3}) : c.none();
      const Operand& positions = rotate ? c.ids("positions", {M}, {8, 0, 3}) : c.none();
      c.run(oracle(), [&](Ops& ops) {
        ops.split_qkv_backward({dqkv, dq, dk, dv, layout, {cos, sin}, positions});
        check_gradients(
            [&] {
              ops.split_qkv({q, k, v, qkv, layout, {cos, sin}, positions});
            },
            [&] {
              return weighted({{&q, &dq}, {&k, &dk}, {&v, &dv}});
            },
            {{&qkv, &dqkv}});
      });
    }
}

TEST_CASE("gradient of the cross entropy, with z-loss, scale and masked columns") {
  for (const double z_loss : {0.0, 0.05})
    for (const double logit_scale : {1.0, 0.125}) {
      INFO("z_loss " << z_loss << " logit_scale " << logit_scale);
      const int64_t C = 5, V = 12, valid = 10;
      const double scale = 0.7;
      Case c;
      const Operand& logits = c.inout("logits", kF32, {C, V}, scaled(2.0));
      const Operand& gradient = c.output("gradient", kF32, {C, V});
      const Operand &targets = c.ids("targets", {C}, {0, 9, -1, 4, 4}), &masked = c.ids("masked", {2}, {3, 7});
      const Operand &stats = c.output("stats", kF32, {C, 3}), &loss = c.output("loss", kF32, {C, 2});
      c.run(oracle(), [&](Ops& ops) {
        const Vocabulary vocabulary{0, valid, masked, logit_scale};
        const auto forward = [&] {
          ops.softmax_stats({stats, logits, targets, vocabulary});
          ops.cross_entropy({loss, stats, targets});
        };
        forward();
        ops.copy({gradient, logits});
        ops.cross_entropy_backward({gradient, loss, targets, vocabulary, scale, z_loss});
        const auto terms = [&] {
          std::vector<double> all;
          for (int64_t r = 0; r < C; ++r) {
            const double l = loss.tensor.ptr<float>()[2 * r], lse = loss.tensor.ptr<float>()[2 * r + 1];
            all.insert(all.end(), {scale * l, scale * z_loss * lse * lse});
          }
          return all;
        };
        check_gradients(forward, terms, {{&logits, &gradient}});
      });
      for (int64_t r = 0; r < C; ++r)
        for (int64_t i = 0; i < V; ++i)
          if (r == 2 || i == 3 || i == 7 || i >= valid) CHECK(gradient.result[r * V + i] == 0.0);
    }
}

TEST_CASE("the oracle adds to the destination with Write::add") {
  const int64_t M = 4, N = 5;
  const NormSpec spec;
  Case c;
  const Operand &dy = c.input("dy", kF32, {M, N}), &x = c.input("x", kF32, {M, N}), &gain = c.input("gain", kF32, {N});
  const Operand& stats = c.input("stats", kF32, {M, 2}, constant(0.5));
  std::vector<std::pair<Operand*, Operand*>> pairs;
  for (const Shape& s : {Shape{N, N}, Shape{N}, Shape{M, N}, Shape{N}, Shape{N}})
    pairs.push_back({&c.output("set", kF32, s), &c.inout("added", kF32, s)});
  c.run(oracle(), [&](Ops& ops) {
    for (const Write write : {Write::set, Write::add}) {
      const auto to = [&](size_t i) -> const Tensor& {
        return write == Write::set ? pairs[i].first->tensor : pairs[i].second->tensor;
      };
      ops.linear_backward_weight({to(0), dy, x, write});
      ops.bias_backward({to(1), dy, write});
      ops.norm_backward_input({to(2), dy, x, stats, gain, spec, write});
      ops.norm_backward_weight({to(3), to(4), dy, x, stats, spec, write});
    }
  });
  for (const auto& [set, added] : pairs)
    for (size_t i = 0; i < set->result.size(); ++i)
      CHECK(added->result[i] == Approx(set->result[i] + added->value[i]).epsilon(1e-6).margin(1e-6));
}
