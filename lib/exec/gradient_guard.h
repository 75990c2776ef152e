// GradientGuard: limits what quantization costs the gradients of each parameter (communication.max_gradient_error).
//
// The error of a parameter is a mean over elements other than 0: of |decoded - exact| / |exact|, at most 1, as large as
// if the element were lost. So an outlier that sets the scale of its block, in which all others become 0, counts as
// what it is. Every rank measures this on blocks of its own gradients, before they are first quantized: a few blocks of
// each parameter, others in each step, with the ops that also quantize what is sent.
//
// After a step, each parameter is sent with the fewest bits with which its error, the mean over all ranks, is within
// the limit: those of the run spec, 8, or as it is. It gets fewer bits than before only if its error is clearly within
// the limit, and only after every 16th step, or one whose number is a power of two. At first, and where too much of a
// unit would be sent so, all is sent as it is. All ranks choose alike, and checkpoints have the choices, so that a
// resumed run sends the same.
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
  std::map<std::string, int> bits;  // by parameter, of those that are sent with more bits than the run spec says

  bool operator==(const GradientGuardState&) const = default;
};

class GradientGuard {
 public:
  // The number of bits changed with which the gradient of a parameter is sent.
  struct Change {
    std::string name;
    int from = 0, to = 0;
    double error = 0;  // with the bits of the run spec
  };

  // Takes 4 * block bytes of the arena for each of kBlocks blocks of a parameter of this rank. `fewest`: the format
  // with the fewest bits in which sums are sent. `tables`: those of the ranks of the tensor group. `sends_few`: begin
  // as if all errors were within the limit, for dry runs.
  GradientGuard(const ModelEnv&, double limit, const BlockFormat& fewest, std::span<const ParamTable> tables,
                bool sends_few);

  // Samples the gradients of a unit before their sum; replaces what was sampled of it.
  void sample(int unit, const Tensor& whole);
  // Returns the parts of a unit that are sent with more bits, relative to its begin.
  std::vector<FormattedParts> parts(int unit) const;

  // Returns sums over what this rank has sampled in the step, for choose(). The host waits for them.
  std::vector<double> errors() const;
  // Takes the sums over all ranks, and chooses the bits for the next step.
  void choose(std::span<const double> errors);
  // In place of choose(), for a step whose gradients are not finite.
  void keep();
  // Returns what the last choose() has changed; nothing after keep().
  const std::vector<Change>& changes() const { return changes_; }
  // Returns the median over the parameters of the error, with the bits of the run spec, that the last choose() was
  // given; NaN after keep().
  double median_error() const { return median_error_; }
  // Returns the number of parameters of the model that are sent with more bits than the run spec says.
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
  bool mostly_exact(int unit) const;
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
                                                 std::span<const ParamTable> tables, bool sends_few);

// Returns the changes as a line of text for people; empty if there are none.
std::string describe(const std::vector<GradientGuard::Change>&);

}  // namespace fp
