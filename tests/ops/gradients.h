// Gradients by central differences, to hold the oracle's backward passes against.
//
// With steps of h = 2^-8, about the cube root of f32's rounding unit, what storing the outputs in f32 costs (2^-24/h of
// their terms in the loss) and what the third derivative costs (h^2 = 2^-16, times a small constant) are alike.
#pragma once

#include <functional>
#include <vector>

#include "operands.h"

namespace fp::test {

struct Variable {
  const Operand* x;
  const Operand* dx;
};

// sum of weight * y over all elements of these pairs, as separate terms.
struct Output {
  const Operand* y;
  const Operand* weight;
};
std::vector<double> weighted(const std::vector<Output>& outputs);

// To be called inside Case::run on the oracle, after the backward pass has written every dx: runs forward() at x +- h
// for each element of each x and compares the slope of the sum of terms() with dx.
void check_gradients(const std::function<void()>& forward, const std::function<std::vector<double>()>& terms,
                     const std::vector<Variable>& variables);

}  // namespace fp::test
