// What `fptrain bench ops` measures: every op at the shapes of a model's training step.
#pragma once

#include <string>
#include <vector>

#include "config/run_spec.h"
#include "train/op_timer.h"

namespace fp {

// Sizes of the model that ops see.
struct OpSizes {
  int64_t tokens, hidden, heads, kv_heads, head_dim, ffn, vocab;
  ActivationSpec activation;
  NormSpec norm;
  bool rotary, biases;

  OpSizes(const ModelSection&, int64_t tokens);
  HeadLayout layout() const { return {.heads = heads, .kv_heads = kv_heads, .head_dim = head_dim}; }
};

// Products and attention are held against the fastest product, all other ops against the copy.
enum class Bound : uint8_t { flops, bytes };

struct OpRow {
  std::string op, shape;
  double seconds = 0;
  double amount = 0;  // FLOPs, or bytes read and written: each operand once
  Bound bound = Bound::bytes;
  double rate() const { return amount / seconds; }
};

class OpBenchmark {
 public:
  OpBenchmark(Ops& ops, DType compute, int repeats) : timer_(ops), ops_(ops), t_(compute), repeats_(repeats) {}

  void copies();  // among them the yardstick of memory: a copy larger than any cache
  void products(const OpSizes&);
  void fused_products(const OpSizes&);
  // `title` comes after the op's name. Sets aside the scratch that it needs.
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
  // An op bound by memory: each of `moved` is read or written once; the first gives the shape.
  void memory(const std::string& op, const std::vector<Tensor>& moved, const Call&);

  OpTimer timer_;
  Ops& ops_;
  DType t_;
  int repeats_;
};

}  // namespace fp
