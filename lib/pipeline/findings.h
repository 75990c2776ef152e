// The checks behind verify.h. Each adds its errors to Findings; all but check_shape require a schedule that it accepts.
#pragma once

#include "base/error.h"
#include "pipeline/lower.h"
#include "pipeline/text.h"

namespace fp {

// Collects error messages; keeps the first kMost of them and counts the rest.
class Findings {
 public:
  explicit Findings(const Schedule& s) : schedule_(&s) {}

  template <class... T>
  void add(fmt::format_string<T...> format, T&&... values) {
    if (++count_ <= kMost) lines_.push_back(fmt::format(format, std::forward<T>(values)...));
  }
  // Adds an error about the action at `index` of a rank's list.
  template <class... T>
  void at(size_t rank, size_t index, fmt::format_string<T...> format, T&&... values) {
    add("rank {}, action {} ({}): {}", rank, index, to_text(schedule_->ranks[rank][index]),
        fmt::format(format, std::forward<T>(values)...));
  }
  bool none() const { return count_ == 0; }
  std::vector<std::string> lines() && {
    if (count_ > kMost) lines_.push_back(fmt::format("... and {} more", count_ - kMost));
    return std::move(lines_);
  }

 private:
  static constexpr int kMost = 20;
  const Schedule* schedule_;
  std::vector<std::string> lines_;
  int count_ = 0;
};

// Numbers are in range, actions are on the rank that holds their stage, and pairs are complete.
void check_shape(const Schedule&, Findings&);
// Every stage runs each micro-batch of its pipe exactly once, F before B before W. A schedule without any backward pass
// may consist of forward passes alone.
void check_computation(const Schedule&, Findings&);
// Every output that crosses ranks has one send after it is produced and one receive before it is used, and both sides
// of a channel use the same order.
void check_messages(const Schedule&, Findings&);
// F, B and D find the weights of their stage gathered, no more than `resident` stages are gathered at a time, and all
// are freed in the end.
void check_weights(const Schedule&, const LoweringOptions&, Findings&);
// Reductions cover all gradients, `reduce_every` at a time. Ranks that share stages reduce and gather in one order.
void check_sums(const Schedule&, const LoweringOptions&, Findings&);
// No rank deadlocks, whatever the actions take. Requires that all other checks found nothing.
void check_progress(const Schedule&, const LoweringOptions&, Findings&);

}  // namespace fp
