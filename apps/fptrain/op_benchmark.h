// Benchmark of every op at the shapes of a model's training step, for `fptrain bench ops`.
#pragma once

#include <string>
#include <vector>

#include "bench/op_timer.h"
#include "config/run_spec.h"
#include "model/architecture.h"

namespace fp {

// The sizes of a model that determine the shapes of ops.
struct OpSizes {
  int64_t tokens, hidden, heads, kv_heads, head_dim, ffn, vocab;
  ActivationSpec activation;
  NormSpec norm;
  bool rotary, biases;

  OpSizes(const ModelSection&, int64_t tokens);
  HeadLayout layout() const { return {.heads = heads, .kv_heads = kv_heads, .head_dim = head_dim}; }
};

// Whether an op is bound by FLOPs or by bytes. Matrix products and attention are compared with the device's peak, all
// other ops with the copy.
enum class Bound : uint8_t { flops, bytes };

// Result for one op.
struct OpRow {
  std::string op, shape;
  double seconds = 0;
  double amount = 0;  // FLOPs, or bytes read and written with each operand counted once
  Bound bound = Bound::bytes;
  double rate() const { return amount / seconds; }
};

// Measures groups of ops and appends to `rows`.
class OpBenchmark {
 public:
  OpBenchmark(Ops& ops, DType compute, int repeats) : timer_(ops), ops_(ops), t_(compute), repeats_(repeats) {}

  void copies();  // includes the reference for bytes: a copy larger than any cache
  void products(const OpSizes&);
  void fused_products(const OpSizes&);
  // Appends `title` to the name of the op. Reserves the scratch memory that attention needs.
  void attention(const OpSizes&, int64_t length, const std::string& title);
  void norms(const OpSizes&);
  void token_local(const OpSizes&);
  void embeddings(const OpSizes&);
  void heads(const OpSizes&);
  void loss(const OpSizes&);
  void optimizer(int64_t parameters);

  std::vector<OpRow> rows;

 private:
  Tensor operand(const Shape& shape) { return timer_.operand(t_, shape); }
  Tensor f32(const Shape& shape) { return timer_.operand(DType::f32, shape); }
  Tensor ids(const Shape& shape, int64_t below) { return timer_.operand(DType::i32, shape, below); }

  using Call = std::function<void()>;
  void add(const std::string& op, const std::string& shape, double amount, Bound, const Call&);
  // Adds an op that is bound by bytes: each tensor of `moved` is read or written once; the first gives the shape.
  void memory(const std::string& op, const std::vector<Tensor>& moved, const Call&);

  OpTimer timer_;
  Ops& ops_;
  DType t_;
  int repeats_;
};

}  // namespace fp
