#include "inference/multiple_choice_eval.h"

#include <algorithm>

#include "base/error.h"

namespace fp {
namespace {

// Fills row `row` with context and completion; only the completion's tokens are targets.
void write_row(const MultipleChoice& question, const std::vector<int32_t>& completion, int64_t row, Batch& b) {
  std::vector<int32_t> tokens = question.context;
  tokens.insert(tokens.end(), completion.begin(), completion.end());
  const auto at = static_cast<size_t>(row * b.seq_len);
  for (size_t t = 0; t < static_cast<size_t>(b.seq_len); ++t) {
    const bool scored = t + 1 >= question.context.size() && t + 1 < tokens.size();
    b.tokens[at + t] = t < tokens.size() ? tokens[t] : 0;
    b.targets[at + t] = scored ? tokens[t + 1] : kIgnoredTarget;
    b.positions[at + t] = static_cast<int32_t>(t);
  }
}

// Returns the completion with the lowest `cost`.
template <class Cost>
int32_t best(const MultipleChoice& question, Cost&& cost) {
  int32_t choice = 0;
  for (size_t i = 1; i < question.completions.size(); ++i)
    if (cost(i) < cost(static_cast<size_t>(choice))) choice = static_cast<int32_t>(i);
  return choice;
}

void score(const MultipleChoice& question, std::span<const double> losses, MultipleChoiceResult& r) {
  ++r.examples;
  const auto mean = [&](size_t i) { return losses[i] / static_cast<double>(question.completions[i].size()); };
  if (best(question, [&](size_t i) { return losses[i]; }) == question.label) ++r.correct;
  if (best(question, mean) == question.label) ++r.correct_normalized;
}

}  // namespace

int64_t longest_row(const std::vector<MultipleChoice>& questions, int64_t vocab) {
  size_t longest = 1;
  for (size_t i = 0; i < questions.size(); ++i) {
    const auto check = [&](const std::vector<int32_t>& ids) {
      for (const int32_t id : ids)
        if (id >= vocab)
          throw DataError(fmt::format("example {}: token id {}; this model's vocabulary ends at {}", i, id, vocab - 1));
    };
    if (questions[i].context.empty()) throw DataError(fmt::format("example {}: its context is empty", i));
    check(questions[i].context);
    for (const auto& completion : questions[i].completions) {
      check(completion);
      longest = std::max(longest, questions[i].context.size() + completion.size());
    }
  }
  return static_cast<int64_t>(longest);
}

MultipleChoiceResult evaluate_choices(Executor& executor, const std::vector<MultipleChoice>& questions, int64_t rows,
                                      int64_t seq_len, const std::function<void(int64_t)>& on_progress) {
  MultipleChoiceResult result;
  std::vector<double> losses;  // of the completions whose questions are not scored yet
  size_t questions_done = 0;
  Batch b;
  int64_t filled = 0;
  const auto flush = [&] {
    if (filled == 0) return;
    const std::vector<double> sums = executor.row_losses(b);
    losses.insert(losses.end(), sums.begin(), sums.begin() + filled);
    filled = 0;
    size_t used = 0;
    for (; questions_done < questions.size() && used + questions[questions_done].completions.size() <= losses.size();
         ++questions_done) {
      score(questions[questions_done], std::span(losses).subspan(used, questions[questions_done].completions.size()),
            result);
      used += questions[questions_done].completions.size();
    }
    losses.erase(losses.begin(), losses.begin() + static_cast<int64_t>(used));
    on_progress(result.examples);
  };
  for (const MultipleChoice& question : questions)
    for (const auto& completion : question.completions) {
      if (filled == 0) {
        b.resize(rows, seq_len);
        std::fill(b.targets.begin(), b.targets.end(), kIgnoredTarget);
      }
      write_row(question, completion, filled++, b);
      if (filled == rows) flush();
    }
  flush();
  return result;
}

}  // namespace fp
