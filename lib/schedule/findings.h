// The parts of verify.h's proof. Each says what is wrong; all but check_shape need the shape to be right.
#pragma once

#include "base/error.h"
#include "schedule/lower.h"
#include "schedule/text.h"

namespace fp {

class Findings {
 public:
  explicit Findings(const Schedule& s) : schedule_(&s) {}

  template <class... T>
  void add(fmt::format_string<T...> format, T&&... values) {
    if (++count_ <= kMost) lines_.push_back(fmt::format(format, std::forward<T>(values)...));
  }
  // About an action of a rank's list.
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

// Numbers in range, actions on the rank that holds their stage, pairs whole.
void check_shape(const Schedule&, Findings&);
// Every stage runs each micro-batch of the pipe once, F before B before W. No backward pass at all: forward passes
// alone.
void check_computation(const Schedule&, Findings&);
// One send and one receive for what passes between ranks, after it is made and before it is used, channels in order.
void check_messages(const Schedule&, Findings&);
// F, B, D find the weights of their stage whole, of which there are never too many; nothing stays whole.
void check_weights(const Schedule&, const LoweringOptions&, Findings&);
// Sums cover all gradients, as many at a time as they should; ranks that share stages sum and gather in the same order.
void check_sums(const Schedule&, const LoweringOptions&, Findings&);
// Whatever the times, the lists run through. Needs all the others to have found nothing.
void check_progress(const Schedule&, const LoweringOptions&, Findings&);

}  // namespace fp
