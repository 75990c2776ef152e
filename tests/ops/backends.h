// The backends that the suite holds against the oracle.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/ops.h"

namespace fp::test {

// What a backend that watches its memory is told of it.
enum class Mark : uint8_t { forbidden, allowed, unwritten };

struct Backend {
  std::string name;
  std::shared_ptr<Ops> ops;
  // Memory that its tensors may live in.
  std::function<std::shared_ptr<void>(size_t bytes)> allocate;
  bool host_memory = true;
  // Aligned operands take other kernels than others do: every call is made both ways.
  bool both_alignments = false;
  bool emulated = false;  // a thousand times as slow as others: fewer_if_slow
  std::function<void(void* address, size_t bytes, Mark)> mark = [](void*, size_t, Mark) {};
  // What the backend has found wrong with its own kernels since it was asked last.
  std::function<std::string()> problems = [] { return std::string(); };
};

const Backend& oracle();
const std::vector<Backend>& backends();  // backends_*.cpp: one for each executable that the suite is linked into

// How many cases of a kind to try: `all`, or `few` where a backend is emulated or a sanitizer watches.
int fewer_if_slow(int all, int few);

std::shared_ptr<void> allocate_on_host(size_t bytes);

}  // namespace fp::test
