// The plots of a run's report.
#pragma once

#include <vector>

#include "report/history.h"
#include "report/plot.h"
#include "report/run_facts.h"

namespace fp {

// Returns the plot of the loss of every step, its moving average and the validation loss. Its title says what is
// averaged, which depends on the objective.
Plot loss_plot(const RunFacts& facts, const History& history);

// Returns the plot of the loss by position of the first and the last of some evaluations, with bands of two standard
// errors. Without curves if none has it.
Plot position_plot(const std::vector<StepMetrics>& evaluations);

// Returns all plots of the page, the loss first.
std::vector<Plot> run_plots(const RunFacts& facts, const History& history);

}  // namespace fp
