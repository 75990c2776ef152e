// Comm: the process-group seam. A Group is a set of ranks that act together; it moves and sums data and never computes
// anything else. The model and the trainer name groups by what they are for; with one rank every call is a no-op.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "tensor/tensor.h"

namespace fp {

class Group {
 public:
  virtual ~Group() = default;
  virtual std::string_view backend() const = 0;
  virtual int size() const = 0;
  virtual int rank() const = 0;

  // Element-wise over the ranks, in place, f32 or bf16 tensors; every rank ends with the same bits.
  virtual void all_reduce_sum(const Tensor& x) = 0;
  virtual void all_reduce_max(const Tensor& x) = 0;
  // Small host values that steer the run: losses, counts, flags.
  virtual void all_reduce_sum(std::span<double> values) = 0;
  virtual void all_reduce_max(std::span<double> values) = 0;
  virtual void barrier() = 0;
};

// The groups a rank belongs to.
struct Groups {
  std::shared_ptr<Group> world;   // everybody
  std::shared_ptr<Group> tensor;  // holds the other cuts of my tensors
  std::shared_ptr<Group> data;    // holds my weights, sees other tokens (data x sequence)
};

// All groups of a run with a single rank.
Groups make_self_groups();

}  // namespace fp
