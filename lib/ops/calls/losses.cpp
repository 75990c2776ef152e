#include "ops/calls/losses.h"

#include "ops/calls/checks.h"

namespace fp::calls {
namespace {

constexpr double kSoftmaxFlops = 4, kBackwardFlops = 4;  // per element (exp: 1)

void slice(const Checks& op, const Tensor& logits, const Tensor& targets, const Vocabulary& v) {
  op.compute("logits", logits);
  op.count("targets", targets, DType::i32, logits.rows());
  FP_CHECK(v.first_id >= 0 && v.valid_ids > 0, "{}: first id {}, valid ids {}: expected at least 0 and 1", op.name,
           v.first_id, v.valid_ids);
  if (v.masked_ids) op.count("masked_ids", v.masked_ids, DType::i32, v.masked_ids.elements());
}

}  // namespace

void check(const SoftmaxStats& c) {
  const Checks op(c);
  slice(op, c.logits, c.targets, c.vocabulary);
  op.matrix("stats", c.stats, DType::f32, c.logits.rows(), 3);
}
OpWork cost(const SoftmaxStats& c) {
  return work(c, c.logits.dtype, kSoftmaxFlops * count_of(c.logits),
              bytes_of(c.stats, c.logits, c.targets, c.vocabulary.masked_ids));
}

void check(const SoftmaxStatsMerge& c) {
  const Checks op(c);
  op.rank("parts", c.parts, 3);
  op.exactly("parts", c.parts, DType::f32, {c.parts.shape[0], c.parts.shape[1], 3});
  op.matrix("stats", c.stats, DType::f32, c.parts.shape[1], 3);
}
OpWork cost(const SoftmaxStatsMerge& c) {
  return work(c, c.stats.dtype, kSoftmaxFlops * count_of(c.parts) / 3, bytes_of(c.stats, c.parts));
}

void check(const CrossEntropy& c) {
  const Checks op(c);
  op.compute("loss", c.loss);
  op.matrix("loss", c.loss, DType::f32, c.loss.rows(), 2);
  op.matrix("stats", c.stats, DType::f32, c.loss.rows(), 3);
  op.count("targets", c.targets, DType::i32, c.loss.rows());
}
OpWork cost(const CrossEntropy& c) {
  return work(c, c.loss.dtype, 3 * count_of(c.targets), bytes_of(c.loss, c.stats, c.targets));
}

void check(const CrossEntropyBackward& c) {
  const Checks op(c);
  slice(op, c.logits, c.targets, c.vocabulary);
  op.matrix("loss", c.loss, DType::f32, c.logits.rows(), 2);
}
OpWork cost(const CrossEntropyBackward& c) {
  return work(c, c.logits.dtype, kBackwardFlops * count_of(c.logits),
              2 * bytes_of(c.logits) + bytes_of(c.loss, c.targets, c.vocabulary.masked_ids));
}

}  // namespace fp::calls
