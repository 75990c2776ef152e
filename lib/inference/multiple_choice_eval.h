// Evaluates accuracy on multiple-choice questions: the model's choice is the completion with the highest probability
// after the context.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "data/formats/multiple_choice.h"
#include "exec/executor.h"

namespace fp {

struct MultipleChoiceResult {
  int64_t examples = 0;
  int64_t correct = 0;             // by the sum of the completion's log-probabilities ("acc")
  int64_t correct_normalized = 0;  // by their mean over its tokens ("acc_norm", what llm.c reports)
};

// Returns the length in tokens of the longest row that the questions need. Throws DataError naming the example when its
// context is empty or an id is not in a vocabulary of `vocab`.
int64_t longest_row(const std::vector<MultipleChoice>&, int64_t vocab);

// Scores all questions. The model runs `rows` rows of `seq_len` tokens (at least longest_row) at a time. Ties go to the
// first completion. `on_progress` receives the number of questions done.
MultipleChoiceResult evaluate_choices(Executor&, const std::vector<MultipleChoice>&, int64_t rows, int64_t seq_len,
                                      const std::function<void(int64_t done)>& on_progress);

}  // namespace fp
