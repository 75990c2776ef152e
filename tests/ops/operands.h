// Case: a call of one op with named operands, run on the oracle and on every backend.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "backends.h"

namespace fp::test {

enum class Role : uint8_t { input, output, inout };

// Computes an element from a standard normal value and the element's index.
using Fill = std::function<double(double normal, int64_t index)>;
Fill scaled(double factor);
Fill constant(double value);

struct Operand {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  Role role = Role::input;
  std::vector<double> value;     // content before the call (poison for an output)
  std::vector<double> bound;     // for a destination: the error allowed beside the final rounding; empty: none
  std::vector<double> expected;  // the oracle's result, after check()
  std::vector<double> result;    // the result of the backend that ran last
  Tensor tensor;                 // its memory during a call; empty for an operand that is left out

  int64_t elements() const { return shape.elements(); }
  operator const Tensor&() const { return tensor; }
  // Sets value[i] for all i, rounded to the format.
  void fill(const Fill& f, uint32_t stream);
};

using Call = std::function<void(Ops&)>;

class Case {
 public:
  explicit Case(uint32_t seed = 0) : seed_(seed) {}

  Operand& input(const std::string& name, DType, const Shape&, const Fill& = scaled(1.0));
  Operand& ids(const std::string& name, const Shape&, const std::vector<int32_t>&);
  // Adds a destination that is filled with NaN before the call: it must be overwritten completely.
  Operand& output(const std::string& name, DType, const Shape&);
  Operand& inout(const std::string& name, DType, const Shape&, const Fill& = scaled(1.0));
  Operand& destination(const std::string& name, DType dtype, const Shape& shape, Write write) {
    return write == Write::set ? output(name, dtype, shape) : inout(name, dtype, shape);
  }
  // Adds an operand that is left out.
  Operand& none();

  // Runs the call on the oracle, and on every backend with one thread, with two, and again. Checks that results are
  // within tolerance and bit-equal from run to run, and that inputs and the memory around every operand are untouched.
  void check(const Call& call, const std::function<void(const Backend&)>& after = {});

  // Runs the call on one backend and stores the results in `result`. Unless `aligned`, every other operand is off by
  // one element.
  void run(const Backend&, const Call& call, bool aligned = false);

 private:
  class Placement;
  Operand& add(const std::string& name, DType, const Shape&, Role);
  void check_backend(const Backend&, const Call& call, bool aligned);

  uint32_t seed_;
  std::deque<Operand> operands_;  // references stay valid
};

// Runs f(dtype) for f32 and bf16.
template <class F>
void for_each_compute_type(F&& f) {
  f(DType::f32);
  f(DType::bf16);
}

}  // namespace fp::test
