// The loss of held-out text by position: how much a model gains from a longer context.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "exec/executor.h"

namespace fp {

// The mean loss of the targets of positions [begin, end) of the samples.
struct PositionLoss {
  int64_t begin = 0, end = 0;
  double loss = 0;            // nats per token
  double standard_error = 0;  // of `loss`, from its spread over the samples; NaN with fewer than two samples
  int64_t tokens = 0;
  std::string label() const;  // "128-256"
};

class PositionLosses {
 public:
  // The ranges of samples of seq_len tokens end at the powers of two from 64 on, and at seq_len.
  explicit PositionLosses(int64_t seq_len);

  // Evaluates a batch; `counts`: adds its losses. Each range takes a pass over the tokens up to its end, which is
  // together at most three passes over the batch, and with a seq_len that is a power of two at most two. All ranks of
  // the pipeline and of the sequences call this with the same batch.
  void add(Executor&, const Batch&, bool counts);
  // Adds up the sums of all data-parallel ranks, on each of them.
  void sum_over(const Groups&);
  // Returns the ranges that have targets.
  std::vector<PositionLoss> means() const;

 private:
  // Sums over samples of a range's loss l and number of targets n.
  struct Sums {
    double samples = 0, l = 0, n = 0, ll = 0, ln = 0, nn = 0;
    std::array<double*, 6> numbers() { return {&samples, &l, &n, &ll, &ln, &nn}; }
  };
  std::vector<int64_t> ends_;
  std::vector<Sums> sums_;
};

}  // namespace fp
