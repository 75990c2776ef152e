// Observers of ops: what they receive, and the measurement of calls.
#include <catch2/catch.hpp>

#include "base/error.h"
#include "operands.h"
#include "ops/counting.h"
#include "ops/timing/timing.h"

using namespace fp;
using namespace fp::test;

namespace {

struct Log : OpObserver {
  std::vector<std::string> lines;
  void starts(std::string_view op) override { lines.push_back("> " + std::string(op)); }
  void ended(std::string_view op, std::span<const OpWork> works) override {
    std::string line = "< " + std::string(op) + ":";
    for (const OpWork& w : works) line += fmt::format(" {} {:.0f} flops {:.0f} bytes", w.op, w.flops, w.bytes);
    lines.push_back(line);
  }
};

// Operands of a linear layer with gelu: 2 tokens, 3 inputs, 4 outputs.
struct Layer {
  explicit Layer(Case& c)
      : x(c.input("x", DType::f32, {2, 3})),
        w(c.input("w", DType::f32, {4, 3})),
        u(c.output("u", DType::f32, {2, 4})),
        y(c.output("y", DType::f32, {2, 4})) {}
  const Operand &x, &w, &u, &y;
};

}  // namespace

TEST_CASE("an observer receives every call in order, with the works of a fused op") {
  Case c;
  const Layer l(c);
  Log log;
  c.run(oracle(), [&](Ops& ops) {
    ops.observe(log);
    ops.linear({l.u, l.x, l.w});
    ops.linear_gelu({l.y, l.u, l.x, l.w});
    ops.weights_changed();
    ops.stop_observing(log);
    ops.linear({l.u, l.x, l.w});
  });
  const std::string product = " linear 48 flops 104 bytes";  // 2*2*3*4; 4*(8 + 6 + 12)
  CHECK(log.lines == std::vector<std::string>{"> linear", "< linear:" + product, "> linear_gelu",
                                              "< linear_gelu:" + product + " activation 72 flops 64 bytes",
                                              "> weights_changed", "< weights_changed:"});
}

TEST_CASE("a wrong call, and a wrong part of a fused one, reaches no observer") {
  Log log;
  const auto ops = make_counting_ops();
  ops->observe(log);
  const auto at = [](const Shape& s) { return Tensor(reinterpret_cast<void*>(uintptr_t{1} << 60), DType::f32, s); };
  CHECK_THROWS_AS(ops->linear({at({2, 4}), at({2, 3}), at({4, 4})}), InternalError);
  CHECK_THROWS_AS(ops->linear_gelu({at({2, 5}), at({2, 4}), at({2, 3}), at({4, 3})}), InternalError);
  CHECK(log.lines.empty());
  CHECK(ops->counts().by_op.empty());
}

TEST_CASE("OpTimes measures calls by op and counts matrix products, while it lives") {
  for (const Backend& backend : backends()) {
    INFO(backend.name);
    Case c;
    const Layer l(c);
    std::vector<TimedCall> calls;
    c.run(backend, [&](Ops& ops) {
      OpTimes times(ops);
      ops.linear({l.u, l.x, l.w});
      times.log_to(&calls);
      ops.linear_gelu({l.y, l.u, l.x, l.w});
      ops.add({l.y, l.y, l.u});
      times.log_to(nullptr);
      ops.add({l.y, l.y, l.u});
      const Timings& t = times.timings();
      CHECK(t.by_op.size() == 3);
      CHECK(t.by_op.at("linear").calls == 1);
      CHECK(t.by_op.at("linear_gelu").calls == 1);
      CHECK(t.by_op.at("add").calls == 2);
      CHECK(t.gemms == std::map<GemmCall, int64_t>{{{GemmKind::forward, 2, 4, 3}, 2}});
      times.reset();
      CHECK(t.by_op.empty());
    });
    c.run(backend, [&](Ops& ops) { ops.linear({l.u, l.x, l.w}); });
    REQUIRE(calls.size() == 2);
    CHECK(calls[0].op == "linear_gelu");
    REQUIRE(calls[0].works.size() == 2);
    CHECK(calls[0].works[1].op == "activation");
    CHECK(calls[1].op == "add");
    CHECK(calls[1].seconds >= 0);
  }
}
