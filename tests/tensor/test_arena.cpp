#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "tensor/arena.h"

using namespace fp;

TEST_CASE("a dry arena predicts the real one exactly", "[tensor]") {
  const auto allocate = [](Arena& arena) {
    std::mt19937 random(7);
    std::vector<ArenaTensor> live;
    std::vector<size_t> offsets;
    std::byte* origin = nullptr;
    for (int i = 0; i < 2000; ++i) {
      if (live.size() < 5 || random() % 2 == 0) {
        live.push_back(arena.alloc(DType::f32, {static_cast<int64_t>(random() % 5000)},
                                   static_cast<MemoryClass>(random() % kMemoryClasses)));
        if (origin == nullptr) origin = static_cast<std::byte*>(live.back()->data);
        offsets.push_back(static_cast<size_t>(static_cast<std::byte*>(live.back()->data) - origin));
      } else {
        live.erase(live.begin() + static_cast<long>(random() % live.size()));
      }
    }
    return offsets;
  };
  Arena dry;
  const auto expected = allocate(dry);
  REQUIRE(dry.in_use() == 0);
  Arena real(host_memory(dry.peak(), false), dry.peak());
  REQUIRE(allocate(real) == expected);
  REQUIRE(real.peak() == dry.peak());
  size_t sum = 0;
  for (const size_t bytes : dry.by_class_at_peak()) sum += bytes;
  REQUIRE(sum <= dry.peak());
}

TEST_CASE("live blocks never overlap and released memory is merged", "[tensor]") {
  Arena arena(host_memory(1 << 20, true), 1 << 20);
  std::mt19937 random(3);
  std::vector<std::pair<ArenaTensor, uint8_t>> live;
  for (int i = 0; i < 500; ++i) {
    if (live.size() > 20) {
      const size_t victim = random() % live.size();
      const auto& [t, mark] = live[victim];
      for (int64_t j = 0; j < t->elements(); ++j) REQUIRE(t->ptr<uint8_t>()[j] == mark);
      live.erase(live.begin() + static_cast<long>(victim));
    }
    const auto mark = static_cast<uint8_t>(i);
    auto t = arena.alloc(DType::u8, {static_cast<int64_t>(1 + random() % 9000)});
    std::fill_n(t->ptr<uint8_t>(), t->elements(), mark);
    live.emplace_back(std::move(t), mark);
  }
  live.clear();
  REQUIRE(arena.in_use() == 0);
  const auto whole = arena.alloc(DType::u8, {static_cast<int64_t>(arena.capacity())});
  REQUIRE(whole->bytes() == arena.capacity());
}

TEST_CASE("an allocation from a full arena throws", "[tensor]") {
  Arena arena(host_memory(1 << 21, false), 1 << 21);
  const auto a = arena.alloc(DType::u8, {1 << 21});
  REQUIRE_THROWS_AS(arena.alloc(DType::u8, {1}), InternalError);
}

TEST_CASE("an arena says where its tensors lie, also their parts", "[tensor]") {
  Arena device, host(Residence::host);
  const auto a = device.alloc(DType::f32, {6, 4}), b = host.alloc(DType::f32, {6, 4});
  CHECK(a->residence == Residence::device);
  CHECK(b->slice(2, 3).reshaped({12}).residence == Residence::host);
  CHECK(a->data != b->data);
}

TEST_CASE("released memory is passed to a function that may overwrite it", "[tensor]") {
  Arena arena(host_memory(1 << 20, false), 1 << 20);
  arena.on_release([](void* data, size_t bytes) { std::memset(data, 0xff, bytes); });
  auto t = arena.alloc(DType::f32, {300});
  t->ptr<float>()[299] = 1;
  const float* const last = t->ptr<float>() + 299;
  t.reset();
  CHECK(std::isnan(*last));
}

TEST_CASE("memory that a guard reports as in use is not released", "[tensor]") {
  struct Guard : MemoryGuard {
    const void* used = nullptr;
    bool in_use(const void* data, size_t bytes) const override { return bytes > 0 && data == used; }
  } guard;
  Arena arena;
  arena.guard(guard);
  auto a = arena.alloc(DType::f32, {8}), b = arena.alloc(DType::f32, {8});
  guard.used = a->data;
  b.reset();
  CHECK_THROWS_AS(a.reset(), InternalError);
  guard.used = nullptr;
  a.reset();
  CHECK(arena.in_use() == 0);
}
