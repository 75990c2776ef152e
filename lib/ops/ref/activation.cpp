#include "ops/ref/ref_ops.h"
#include "ops/ref/values.h"

namespace fp {
namespace {

using ref::Values;

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// Value of a function, and its derivatives by its one or two arguments.
struct Activated {
  double y, da, db;
};

Activated gelu(double x) {
  const double c = std::sqrt(2.0 / M_PI), t = std::tanh(c * (x + 0.044715 * x * x * x));
  return {0.5 * x * (1.0 + t), 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * c * (1.0 + 3.0 * 0.044715 * x * x), 0.0};
}

Activated swiglu(double gate, double up) {
  const double s = sigmoid(gate);
  return {gate * s * up, s * (1.0 + gate * (1.0 - s)) * up, gate * s};
}

Activated gegelu(double a, double b, double limit) {
  const bool clamp = limit > 0.0;
  const bool a_clamped = clamp && a > limit && !std::isinf(a),
             b_clamped = clamp && std::abs(b) > limit && !std::isinf(b);
  if (a_clamped) a = limit;
  if (b_clamped) b = std::copysign(limit, b);
  const double s = sigmoid(1.702 * a);
  return {a * s * (b + 1.0), a_clamped ? 0.0 : s * (1.0 + 1.702 * a * (1.0 - s)) * (b + 1.0), b_clamped ? 0.0 : a * s};
}

// Calls visit(index in y, index in x of the first argument, of the second, value and derivatives) for each output.
template <class Visit>
void for_each_output(const Tensor& y, const Values& X, const ActivationSpec& spec, Visit&& visit) {
  const int64_t M = y.rows(), f = y.cols(), inputs = spec.inputs(f);
  for (int64_t m = 0; m < M; ++m)
    for (int64_t c = 0; c < f; ++c) {
      int64_t i = m * inputs + c, j = i;
      if (spec.kind == Activation::swiglu) j = i + f;
      if (spec.kind == Activation::gegelu) i = m * inputs + 2 * c, j = i + 1;
      visit(m * f + c, i, j,
            spec.kind == Activation::gelu     ? gelu(X[i])
            : spec.kind == Activation::swiglu ? swiglu(X[i], X[j])
                                              : gegelu(X[i], X[j], spec.limit));
    }
}

}  // namespace

void RefOps::run(const calls::Activation& call) {
  Values Y(static_cast<size_t>(call.y.elements()));
  for_each_output(call.y, ref::load(call.x), call.spec,
                  [&](int64_t at, int64_t, int64_t, const Activated& v) { Y[at] = v.y; });
  ref::store(call.y, Y);
}

void RefOps::run(const calls::ActivationBackward& call) {
  const Values DY = ref::load(call.dy);
  Values DX(static_cast<size_t>(call.dx.elements()));
  for_each_output(call.dy, ref::load(call.x), call.spec, [&](int64_t at, int64_t i, int64_t j, const Activated& v) {
    DX[i] = DY[at] * v.da;
    if (j != i) DX[j] = DY[at] * v.db;
  });
  ref::store(call.dx, DX);
}

void RefOps::run(const calls::Add& call) {
  Values Y = ref::load(call.a);
  const Values second = ref::load(call.b);
  for (size_t i = 0; i < Y.size(); ++i) Y[i] += second[i];
  ref::store(call.y, Y);
}

void RefOps::run(const calls::ScaledAdd& call) {
  Values Y = ref::load(call.a);
  const Values second = ref::load(call.b);
  for (size_t i = 0; i < Y.size(); ++i) Y[i] = call.a_scale * Y[i] + (second.empty() ? 0.0 : call.b_scale * second[i]);
  ref::store(call.y, Y);
}

void RefOps::run(const calls::Accumulate& call) { ref::store(call.dst, ref::load(call.src), Write::add); }

}  // namespace fp
