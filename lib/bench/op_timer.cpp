#include "bench/op_timer.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/philox.h"
#include "base/stopwatch.h"

namespace fp {
namespace {

constexpr double kBatchSeconds = 5e-3;
constexpr int64_t kPattern = int64_t{1} << 22;  // elements, which are repeated in larger operands

std::vector<std::byte> random_values(DType dtype, int64_t count, int64_t below) {
  std::vector<std::byte> bytes(static_cast<size_t>(count) * size_of(dtype));
  const auto fill = [&]<class T>(T, auto value_of) {
    T* const out = reinterpret_cast<T*>(bytes.data());
    for (int64_t i = 0; i < count; ++i) out[i] = value_of(Philox::mix(static_cast<uint64_t>(i)) >> 11);
  };
  const auto uniform = [](uint64_t bits) { return static_cast<float>(static_cast<double>(bits) * 0x1p-52 - 1.0); };
  if (dtype == DType::f32) fill(0.0f, uniform);
  if (dtype == DType::bf16) fill(bf16{}, [&](uint64_t bits) { return bf16(uniform(bits)); });
  if (dtype == DType::i32)
    fill(int32_t{}, [&](uint64_t bits) { return static_cast<int32_t>(bits % static_cast<uint64_t>(below)); });
  return bytes;
}

}  // namespace

Tensor OpTimer::operand(DType dtype, const Shape& shape, int64_t below) {
  const int64_t count = shape.elements();
  const size_t bytes = static_cast<size_t>(count) * size_of(dtype) + Arena::kAlignment;
  arenas_.push_back(std::make_unique<Arena>(ops_.allocate(bytes), bytes));
  held_.push_back(arenas_.back()->alloc(dtype, shape));
  const Tensor t = *held_.back();
  const std::vector<std::byte> pattern = random_values(dtype, std::min(count, kPattern), below);
  const Tensor flat = t.reshaped({count});
  for (int64_t i = 0; i < count; i += kPattern)
    ops_.copy_in({flat.slice(i, std::min(kPattern, count - i)), pattern.data()});
  return t;
}

void OpTimer::drop() {
  ops_.synchronize();
  held_.clear();
  arenas_.clear();
}

double OpTimer::batch_seconds(const std::function<void()>& call, int64_t calls) {
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < calls; ++i) call();
  ops_.synchronize();
  return seconds_since(start);
}

double OpTimer::seconds(const std::function<void()>& call, int repeats) {
  batch_seconds(call, 1);  // kernels are loaded, and pages touched, on first use
  int64_t calls = 1;
  for (double s = batch_seconds(call, calls); s < kBatchSeconds; s = batch_seconds(call, calls))
    calls = std::max(2 * calls, static_cast<int64_t>(std::ceil(1.2 * kBatchSeconds / s * static_cast<double>(calls))));
  std::vector<double> times(static_cast<size_t>(repeats));
  for (double& t : times) t = batch_seconds(call, calls) / static_cast<double>(calls);
  std::ranges::nth_element(times, times.begin() + repeats / 2);
  return times[static_cast<size_t>(repeats / 2)];
}

double time_gemm(Ops& ops, const GemmCall& call, DType compute, int repeats) {
  const auto [kind, m, n, k] = call;
  OpTimer timer(ops);
  const Tensor x = timer.operand(compute, {m, k}), y = timer.operand(compute, {m, n});
  const Tensor w = timer.operand(kind == GemmKind::backward_weight ? DType::f32 : compute, {n, k});
  const double seconds = timer.seconds(
      [&, kind = kind] {
        if (kind == GemmKind::forward) ops.linear({y, x, w, {}});
        if (kind == GemmKind::backward_input) ops.linear_backward_input({x, y, w});
        if (kind == GemmKind::backward_weight) ops.linear_backward_weight({w, y, x, Write::set});
      },
      repeats);
  timer.drop();
  return seconds;
}

PeakRate peak_rate(Ops& ops, DType compute) {
  if (const double known = ops.peak_flops(compute); known > 0)
    return {known, ops.device_memory() ? "data sheet" : "operands in registers"};
  constexpr double kBusy = 2e-3;  // seconds
  constexpr int64_t kSmallest = 128, kLargest = 8192;
  int64_t n = kSmallest;
  const auto seconds = [&](int repeats) { return time_gemm(ops, {GemmKind::forward, n, n, n}, compute, repeats); };
  while (n < kLargest && seconds(1) < kBusy) n *= 2;
  return {2.0 * static_cast<double>(n * n * n) / seconds(5), "a large square product"};
}

}  // namespace fp
