// Asynchronous copies between device and host memory: what they move, their order, and what is refused.
#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "base/error.h"
#include "two_memories.h"

using namespace fp;
using namespace fp::test;

namespace {

void fill(const Tensor& host, float first) {
  for (int64_t i = 0; i < host.elements(); ++i) host.ptr<float>()[i] = first + static_cast<float>(i);
}
bool holds(const Tensor& host, float first) {
  for (int64_t i = 0; i < host.elements(); ++i)
    if (host.ptr<float>()[i] != first + static_cast<float>(i)) return false;
  return true;
}

}  // namespace

TEST_CASE("copies move bytes both ways, in order with the ops") {
  for (const Backend& b : backends()) {
    CAPTURE(b.name);
    TwoMemories m(b);
    Copies& copies = m.ops.copies();
    const ArenaTensor from = m.on_host(), back = m.on_host(), x = m.on_device(), y = m.on_device();
    fill(from, 1);
    fill(back, -5);
    const CopyTotal in = copies.total(CopyLane::to_device), out = copies.total(CopyLane::to_host);
    copies.wait(copies.start(x, from));
    m.ops.add({y, x, x});
    const CopyTicket done = copies.start(back, y);  // after the op, without a wait
    copies.wait(done);
    m.ops.synchronize();
    for (int64_t i = 0; i < TwoMemories::kCount; ++i) REQUIRE(back->ptr<float>()[i] == 2 * from->ptr<float>()[i]);
    CHECK(copies.total(CopyLane::to_device).bytes - in.bytes == TwoMemories::kCount * 4);
    CHECK(copies.total(CopyLane::to_host).copies - out.copies == 1);
    CHECK(b.problems().empty());
  }
}

TEST_CASE("a copy starts after the copy of the other lane that it names") {
  for (const Backend& b : backends()) {
    CAPTURE(b.name);
    TwoMemories m(b);
    Copies& copies = m.ops.copies();
    const ArenaTensor first = m.on_host(), second = m.on_host(), result = m.on_host(), x = m.on_device();
    fill(first, 1);
    fill(second, 7000);
    copies.wait(copies.start(x, first));
    // The buffer x is read by the first of these copies and overwritten by the second.
    const CopyTicket out = copies.start(result, x);
    const CopyTicket in = copies.start(x, second, out);
    copies.wait(in);
    copies.wait(out);
    m.ops.synchronize();
    CHECK(holds(result, 1));
  }
}

TEST_CASE("a copy and an op that race with a copy are refused") {
  const Backend& b = backends().front();
  TwoMemories m(b);
  Copies& copies = m.ops.copies();
  const ArenaTensor h = m.on_host(), other = m.on_host(), x = m.on_device(), y = m.on_device();
  fill(h, 1);
  m.ops.zero({y});
  SECTION("an op with memory that a copy fills") {
    const CopyTicket t = copies.start(x, h);
    CHECK_THROWS_AS(m.ops.add({y, x, y}), InternalError);
    CHECK_THROWS_AS(m.ops.zero({x->slice(TwoMemories::kCount - 1, 1)}), InternalError);
    copies.wait(t);
    m.ops.add({y, x, y});
  }
  SECTION("an op may read memory that is copied to the host") {
    const CopyTicket t = copies.start(h, y);
    CHECK_NOTHROW(m.ops.add({x, y, y}));
    copies.wait(t);
  }
  SECTION("a copy into memory that the other lane reads") {
    const CopyTicket t = copies.start(h, y);
    CHECK_THROWS_AS(copies.start(y, other), InternalError);
    copies.wait(copies.start(y, other, t));
  }
  SECTION("a copy of memory that the other lane fills") {
    const CopyTicket t = copies.start(x, h);
    CHECK_THROWS_AS(copies.start(other, x), InternalError);
    copies.wait(copies.start(other, x, t));
    CHECK(copies.idle());
  }
  SECTION("memory released while a copy reads or fills it") {
    ArenaTensor source = m.on_device(), destination = m.on_host();
    m.ops.zero({source});
    const CopyTicket t = copies.start(destination, source);
    CHECK_THROWS_AS(source.reset(), InternalError);
    CHECK_THROWS_AS(destination.reset(), InternalError);
    copies.wait(t);
    source.reset();
    destination.reset();
  }
}

TEST_CASE("host tensors are refused by ops, and copies within one memory") {
  const Backend& b = backends().front();
  TwoMemories m(b);
  const ArenaTensor h = m.on_host(), x = m.on_device(), y = m.on_device();
  CHECK_THROWS_AS(m.ops.zero({h}), InternalError);
  CHECK_THROWS_AS(m.ops.add({x, y, h->slice(0, TwoMemories::kCount).reshaped({10, 100})}), InternalError);
  CHECK_THROWS_AS(m.ops.adamw({x, x, h, x, {}, {}, {}}), InternalError);
  CHECK_THROWS_AS(m.ops.adamw({x, x, x, x, {}, {}, {.gradient = h->slice(0, 2).reshaped({1, 2}), .bits = {}}}),
                  InternalError);
  CHECK_THROWS_AS(m.ops.copies().start(x, y), InternalError);
  CHECK_THROWS_AS(m.ops.copies().start(h, h), InternalError);
  CHECK_THROWS_AS(m.ops.copies().start(h, x->slice(0, 5)), InternalError);
}

// Values pass from the host through a rotation of buffers, in which an op changes them, and back.
TEST_CASE("a rotation of buffers gives the same bits under any delays") {
  for (const Backend& b : backends()) {
    CAPTURE(b.name);
    TwoMemories m(b);
    Copies& copies = m.ops.copies();
    constexpr int kPieces = 12;
    constexpr size_t kBuffers = 3;
    const ArenaTensor values = m.on_host(kPieces * (TwoMemories::kCount / 4));
    fill(values, 3);
    std::vector<ArenaTensor> buffers;
    for (size_t i = 0; i < kBuffers; ++i) buffers.push_back(m.on_device(TwoMemories::kCount / 4));
    std::vector<CopyTicket> in(kPieces + 1), out(kPieces);
    const auto piece = [&](int i) { return values->slice(i * (TwoMemories::kCount / 4), TwoMemories::kCount / 4); };
    const auto fetch = [&](int i) {
      const CopyTicket before = i >= static_cast<int>(kBuffers) ? out[static_cast<size_t>(i) - kBuffers] : CopyTicket{};
      in[static_cast<size_t>(i)] = copies.start(buffers[static_cast<size_t>(i) % kBuffers], piece(i), before);
    };
    fetch(0);
    for (int i = 0; i < kPieces; ++i) {
      if (i + 1 < kPieces) fetch(i + 1);
      copies.wait(in[static_cast<size_t>(i)]);
      const Tensor& t = buffers[static_cast<size_t>(i) % kBuffers];
      m.ops.add({t, t, t});
      out[static_cast<size_t>(i)] = copies.start(piece(i), t);
    }
    copies.wait_for_all();
    m.ops.synchronize();
    bool doubled = true;
    for (int64_t i = 0; i < values->elements(); ++i)
      doubled = doubled && values->ptr<float>()[i] == 2 * (3 + static_cast<float>(i));
    CHECK(doubled);
    CHECK(b.problems().empty());
  }
}
