// The backends that the suite holds against the oracle.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/ops.h"

namespace fp::test {

struct Backend {
  std::string name;
  std::shared_ptr<Ops> ops;
  // Memory that its tensors may live in.
  std::function<std::shared_ptr<void>(size_t bytes)> allocate;
  bool host_memory = true;
};

const Backend& oracle();
const std::vector<Backend>& backends();

}  // namespace fp::test
