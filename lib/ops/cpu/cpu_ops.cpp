#include "ops/cpu/cpu_ops.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/parallel.h"
#include "base/stopwatch.h"
#include "ops/backends.h"
#include "ops/cpu/copy_threads.h"

namespace fp {
namespace {

constexpr int64_t kCopyGrain = int64_t{1} << 20;  // bytes

void copy_bytes(void* dst, const void* src, size_t bytes) {
  parallel_for(static_cast<int64_t>(bytes), kCopyGrain, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<std::byte*>(dst) + begin, static_cast<const std::byte*>(src) + begin,
                static_cast<size_t>(end - begin));
  });
}

}  // namespace

std::unique_ptr<Ops> make_cpu_ops(const CopySettings& copies) {
  return std::make_unique<CpuOps>(cpu::kernels(chosen_isa()), copies);
}

std::unique_ptr<Copies> CpuOps::make_copies() { return std::make_unique<cpu::CopyThreads>(copy_settings_); }

double CpuOps::peak_flops(DType compute) const {
  // Each thread's fastest of many short bursts: other programs interrupt few of them.
  constexpr int kBursts = 64;
  constexpr int64_t kRepeats = 20'000;  // about 40 microseconds
  std::vector<double> fastest(static_cast<size_t>(max_threads()));
  parallel([&](int thread, int) {
    double& best = fastest[static_cast<size_t>(thread)];
    for (int i = 0; i < kBursts; ++i) {
      double flops = 0;
      const double seconds = seconds_of([&] { flops = k_.multiply_in_registers(compute == DType::bf16, kRepeats); });
      best = std::max(best, flops / seconds);
    }
  });
  return std::accumulate(fastest.begin(), fastest.end(), 0.0);
}

void CpuOps::run(const calls::CopyIn& call) { copy_bytes(call.dst.data, call.host, call.dst.bytes()); }
void CpuOps::run(const calls::CopyOut& call) { copy_bytes(call.host, call.src.data, call.src.bytes()); }

void CpuOps::run(const calls::Copy& call) { copy_bytes(call.dst.data, call.src.data, call.src.bytes()); }

void CpuOps::run(const calls::Zero& call) {
  parallel_for(static_cast<int64_t>(call.x.bytes()), kCopyGrain, [&](int64_t begin, int64_t end) {
    std::memset(static_cast<std::byte*>(call.x.data) + begin, 0, static_cast<size_t>(end - begin));
  });
}

void CpuOps::run(const calls::Cast& call) {
  if (call.dst.dtype == call.src.dtype) return copy_bytes(call.dst.data, call.src.data, call.src.bytes());
  k_.cast({.to_bf16 = call.dst.dtype == DType::bf16,
           .count = call.src.elements(),
           .dst = call.dst.data,
           .src = call.src.data});
}

}  // namespace fp
