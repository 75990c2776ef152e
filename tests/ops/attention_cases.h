// Attention calls of every kind, with the error bounds of a backend on them.
#pragma once

#include <string>
#include <vector>

#include "operands.h"

namespace fp::test {

struct AttentionCase {
  int64_t B = 1, Tq = 1, Tk = 1, H = 1, K = 1, d = 8;
  AttentionSpec spec;
  bool documents = false;
  DType dtype = DType::f32;
  std::string str() const;
};

// The operands of a forward call, or of a backward call with the oracle's o and lse.
struct AttentionOperands {
  enum class Pass : uint8_t { forward, backward };
  AttentionOperands(Case& c, const AttentionCase& a, Pass pass, Write dq_write = Write::set,
                    Write dkv_write = Write::set);

  void forward(Ops& ops) const { ops.attention({*o, *lse, *q, *k, *v, *doc_start, *sample_ids, a.spec}); }
  void backward(Ops& ops) const {
    ops.attention_backward(
        {*dq, *dk, *dv, *d_o, *q, *k, *v, *o, *lse, *doc_start, *sample_ids, a.spec, dq_write, dkv_write});
  }
  void bound_forward() const;
  void bound_backward() const;

  AttentionCase a;
  Write dq_write, dkv_write;
  Operand *q, *k, *v, *doc_start, *sample_ids, *o, *lse;
  Operand *d_o = nullptr, *dq = nullptr, *dk = nullptr, *dv = nullptr;

 private:
  struct Row;
  Row row(int64_t b, int64_t h, int64_t i) const;
  size_t at_query(int64_t b, int64_t i, int64_t h) const {
    return static_cast<size_t>(((b * a.Tq + i) * a.H + h) * a.d);
  }
  size_t at_key(int64_t b, int64_t j, int64_t h) const {
    return static_cast<size_t>(((b * a.Tk + j) * a.K + h / (a.H / a.K)) * a.d);
  }
  size_t at_lse(int64_t b, int64_t h, int64_t i) const { return static_cast<size_t>((b * a.H + h) * a.Tq + i); }
};

// Checks every backend against the oracle, backward.
void check_backward(const AttentionCase& a, Write dq_write, Write dkv_write);
// Forward and backward, where the gradients are set.
void check_both_passes(const AttentionCase& a);

// Returns a deterministic random choice of shapes and masks with sequences up to `longest`.
std::vector<AttentionCase> attention_cases(int count, int64_t longest, uint32_t seed);

}  // namespace fp::test
