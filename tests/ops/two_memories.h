// A device arena and a host arena of a backend, for tests of what moves between them.
#pragma once

#include <memory>

#include "backends.h"
#include "tensor/arena.h"

namespace fp::test {

struct TwoMemories {
  static constexpr int64_t kCount = 1003;
  static constexpr size_t kBytes = size_t{1} << 17;

  explicit TwoMemories(const Backend& b)
      : ops(*b.ops),
        device(std::static_pointer_cast<std::byte>(b.allocate(kBytes)), kBytes),
        host(ops.allocate_host(kBytes), kBytes, Residence::host) {
    device.guard(ops.copies());
    host.guard(ops.copies());
  }
  ~TwoMemories() { ops.copies().wait_for_all(); }
  ArenaTensor on_device(int64_t n = kCount, DType type = DType::f32) { return device.alloc(type, {n}); }
  ArenaTensor on_host(int64_t n = kCount, DType type = DType::f32) { return host.alloc(type, {n}); }

  Ops& ops;
  Arena device, host;
};

}  // namespace fp::test
