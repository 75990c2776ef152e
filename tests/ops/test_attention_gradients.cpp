// The oracle's attention_backward against central differences, under every kind of mask.
#include <catch2/catch.hpp>

#include "attention_cases.h"
#include "gradients.h"

using namespace fp;
using namespace fp::test;

namespace {

void check(const AttentionCase& a) {
  INFO(a.str());
  Case c;
  const AttentionOperands o(c, a, AttentionOperands::Pass::backward);
  for (Operand* given : {o.o, o.lse}) given->role = Role::inout;  // the differences write them again
  c.run(oracle(), [&](Ops& ops) {
    o.backward(ops);
    check_gradients([&] { o.forward(ops); },
                    [&] {
                      return weighted({{o.o, o.d_o}});
                    },
                    {{o.q, o.dq}, {o.k, o.dk}, {o.v, o.dv}});
  });
}

AttentionCase small() {
  AttentionCase a{
      .B = 2, .Tq = 9, .Tk = 9, .H = 2, .K = 2, .d = 4, .spec = {}, .documents = false, .dtype = DType::f32};
  a.spec.scale = 0.5;
  return a;
}

}  // namespace

TEST_CASE("gradient of causal attention, odd head sizes, grouped heads") {
  check(small());
  AttentionCase a = small();
  a.d = 3;
  check(a);
  a = small();
  a.H = 6, a.K = 2;
  check(a);
  a.H = 4, a.K = 1;
  check(a);
}

TEST_CASE("gradient of attention with a sliding window") {
  for (const int64_t window : {2, 4, 9}) {
    AttentionCase a = small();
    a.spec.window = window;
    check(a);
  }
}

TEST_CASE("gradient of blocksparse attention") {
  AttentionCase a = small();
  a.H = 4;
  a.spec.block = 2, a.spec.local_blocks = 1, a.spec.vertical_stride = 3;
  check(a);
  a.spec.first_head = 5, a.spec.head_step = 2;
  check(a);
}

TEST_CASE("gradient of attention within documents") {
  AttentionCase a = small();
  a.documents = true;
  check(a);
  a.spec.window = 3;
  check(a);
}

TEST_CASE("gradient of attention with offsets") {
  AttentionCase a = small();
  a.spec.q_offset = 6;
  check(a);
  a.spec.k_offset = 3;
  a.Tk = 7;
  check(a);
  a.spec.q_offset = 0;  // the first queries see no key
  check(a);
}

TEST_CASE("gradient of attention with dropout on the probabilities") {
  AttentionCase a = small();
  a.H = 4, a.K = 2;
  a.spec.dropout = {0.3, 5, Purpose::attention_dropout, 2};
  check(a);
  a.spec.first_head = 4, a.spec.q_offset = 3, a.documents = true;
  check(a);
}
