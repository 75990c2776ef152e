// The backends that the op suite compares with the oracle.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/ops.h"

namespace fp::test {

// Marks on the memory of a backend that checks accesses.
enum class Mark : uint8_t { forbidden, allowed, unwritten };

struct Backend {
  std::string name;
  std::shared_ptr<Ops> ops;
  // Allocates memory for its tensors.
  std::function<std::shared_ptr<void>(size_t bytes)> allocate;
  bool host_memory = true;
  // Aligned and unaligned operands use different kernels: every call is made both ways.
  bool both_alignments = false;
  bool emulated = false;  // a thousand times as slow as others; see fewer_if_slow()
  std::function<void(void* address, size_t bytes, Mark)> mark = [](void*, size_t, Mark) {};
  // Returns the errors that the backend found in its own kernels since the last call; empty: none.
  std::function<std::string()> problems = [] { return std::string(); };
};

const Backend& oracle();
const std::vector<Backend>& backends();  // in backends_*.cpp: one for each executable that links the suite

// Returns the number of cases of a kind to run: `all`, or `few` with an emulated backend or a sanitizer.
int fewer_if_slow(int all, int few);

std::shared_ptr<void> allocate_on_host(size_t bytes);

}  // namespace fp::test
