// Accuracy on multiple-choice questions: the model's choice is the completion that it finds likeliest after the
// context.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "data/multiple_choice.h"
#include "exec/executor.h"

namespace fp {

struct MultipleChoiceResult {
  int64_t examples = 0;
  int64_t correct = 0;             // by the sum of the completion's log-probabilities ("acc")
  int64_t correct_normalized = 0;  // by their mean over its tokens ("acc_norm", what llm.c reports)
};

// Tokens of the longest row that the questions need. DataError for an empty context and, naming the example, for ids
// that a vocabulary of `vocab` does not have.
int64_t longest_row(const std::vector<MultipleChoice>&, int64_t vocab);

// `rows` of `seq_len` tokens (at least longest_row) go through the model at a time. Ties go to the first completion.
MultipleChoiceResult evaluate_choices(Executor&, const std::vector<MultipleChoice>&, int64_t rows, int64_t seq_len,
                                      const std::function<void(int64_t done)>& on_progress);

}  // namespace fp
