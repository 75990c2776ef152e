// Which plots a run's history gives.
#pragma once

#include <vector>

#include "report/history.h"
#include "report/plot.h"
#include "report/run_facts.h"

namespace fp {

// Loss of every step, its moving average and the validation loss.
Plot loss_plot(const History& history);

// All plots of the page, loss first.
std::vector<Plot> run_plots(const RunFacts& facts, const History& history);

}  // namespace fp
