// GradientGuard: limits the quantization error of each parameter's gradients (communication.max_gradient_error).
//
// The error of a parameter is the mean of min(1, |decoded - exact| / |exact|) over its nonzero elements, so an element
// that becomes 0 counts 1. An outlier that sets the scale of its block, in which all other elements become 0, therefore
// gives a large error. Every rank measures the error on its own gradients, before they are first quantized: on a few
// blocks of each parameter, which change from step to step, with the ops that also quantize messages.
//
// After a step, each parameter gets the fewest bits with which its error, the mean over all ranks, is within the limit:
// the run spec's bits, 8, or no quantization. It gets fewer bits than before only if its error is at most
// kClearlyWithin of the limit, and only after every 16th step or a step whose number is a power of two. A unit of which
// more than a quarter needs more bits is sent with more bits as a whole. In the first step nothing is quantized. All
// ranks make the same choices, and checkpoints store them, so that a resumed run sends the same bits.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/shard_exchange.h"
#include "model/env.h"

namespace fp {

// The state of a guard between steps.
struct GradientGuardState {
  int64_t steps = 0;                // measured
  std::map<std::string, int> bits;  // by parameter, of those that are sent with more bits than the others
  int fewest = 0;                   // bits of the others; 0: unknown

  bool operator==(const GradientGuardState&) const = default;
};

class GradientGuard {
 public:
  // A change of the number of bits that the gradient of a parameter needs.
  struct Change {
    std::string name;
    int from = 0, to = 0;
    double error = 0;  // with the bits of the run spec
  };

  // Takes 4 * block bytes of the arena for each of kBlocks blocks of a parameter of this rank. `fewest`: the format
  // with the fewest bits in which sums are sent. `tables`: those of the ranks of the tensor group.
  // `assume_within_limit`: begin as if all errors were within the limit, for dry runs.
  GradientGuard(const ModelEnv&, double limit, const BlockFormat& fewest, std::span<const ParamTable> tables,
                bool assume_within_limit);

  // Samples the gradients of a unit before they are summed; replaces earlier samples of the unit.
  void sample(int unit, const Tensor& whole);
  // Returns the parts of a unit that are sent with more bits, relative to its begin, as start_reduce_scatter() of
  // ShardExchange takes them.
  std::vector<FormattedParts> parts(int unit) const;

  // Returns sums over what this rank has sampled in the step, for choose(). The host waits for them.
  std::vector<double> errors() const;
  // Takes the sums over all ranks, and chooses the bits for the next step.
  void choose(std::span<const double> errors);
  // Keeps the present bits. Call it instead of choose() after a step whose gradients are not finite.
  void keep();
  // Returns what the last choose() has changed; nothing after keep().
  const std::vector<Change>& changes() const { return changes_; }
  // Returns the median over the parameters of the error, with the bits of the run spec, that the last choose() was
  // given; NaN after keep().
  double median_error() const { return median_error_; }
  // Returns the number of parameters of the model that need more bits than the run spec says. Others are sent with
  // more, too, where a unit is as a whole.
  int64_t widened() const;

  GradientGuardState state() const;
  // Continues from a state, perhaps of another mesh or other formats: parameters get at least as many bits as in it.
  void restore(const GradientGuardState&);

  static constexpr int64_t kBlocks = 4;
  static constexpr double kClearlyWithin = 0.8;  // of the limit: fewer bits than before are chosen only there

 private:
  struct Sampled {
    ParamId id = -1;               // -1: none
    int64_t first = 0, count = 0;  // the parameter's elements in the block
  };
  size_t choice_of_most(int unit) const;
  std::vector<float> decoded(const BlockFormat&) const;

  const ModelEnv* env_;
  double limit_;
  std::span<const ParamTable> tables_;
  std::vector<BlockFormat> formats_;  // from few to many bits; after them, as they are
  int exact_bits_;
  int64_t steps_ = 0;
  std::vector<size_t> choices_;        // by parameter: index into formats_
  std::vector<int64_t> first_sample_;  // by parameter that this rank holds: its first row of samples_
  std::vector<Sampled> sampled_;       // by row
  ArenaTensor samples_;                // f32 [rows, block]
  std::vector<Change> changes_;
  double median_error_ = 0;
  int bits_of(size_t choice) const { return choice < formats_.size() ? formats_[choice].bits : exact_bits_; }
};

// Returns a guard where sums over the groups' data ranks are quantized and there is a limit.
std::optional<GradientGuard> make_gradient_guard(const ModelEnv&, const Groups&, double limit,
                                                 std::span<const ParamTable> tables, bool assume_within_limit);

// Returns the changes as a line of text for people; empty if there are none.
std::string describe(const std::vector<GradientGuard::Change>&);

}  // namespace fp
