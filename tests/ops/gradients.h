// Gradients by central differences, against which the oracle's backward passes are checked.
//
// The step is h = 2^-8, about the cube root of the unit roundoff of f32. It balances the error of storing outputs in
// f32 (2^-24/h of their terms in the loss) with that of the third derivative (h^2 = 2^-16, times a small constant).
#pragma once

#include <functional>
#include <vector>

#include "operands.h"

namespace fp::test {

struct Variable {
  const Operand* x;
  const Operand* dx;
};

// An output y with its weights: the loss is the sum of weight * y over all elements of all outputs.
struct Output {
  const Operand* y;
  const Operand* weight;
};
std::vector<double> weighted(const std::vector<Output>& outputs);

// Call it inside Case::run on the oracle, after the backward pass has written every dx. Runs forward() at x +- h for
// each element of each x and compares the slope of the sum of terms() with dx.
void check_gradients(const std::function<void()>& forward, const std::function<std::vector<double>()>& terms,
                     const std::vector<Variable>& variables);

}  // namespace fp::test
