// UnitReductions: reduces the gradients of a stage's units when the schedule says so. If a rank has embedding and LM
// head in two stages, the unit that they share is reduced when both are done.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "exec/gradient_sync.h"
#include "pipeline/schedule.h"
#include "sharding/stages.h"

namespace fp {

class UnitReductions {
 public:
  // Keeps references to all of these. `parts`: by stage.
  UnitReductions(const ParamTable& table, const std::vector<StagePart>& parts, GradientSync& gradients)
      : table_(&table), parts_(&parts), gradients_(&gradients) {}

  // Begins a step with these actions of the rank; ends it, and checks that all of their reductions were done.
  void begin_step(std::span<const Action>);
  void end_step() const;
  // Returns the units of a stage in the order in which their gradients become complete.
  std::vector<int> units(int stage) const;

  void reduce(int unit, int stage);
  void reduce_head(int stage);  // the units of the LM head that the embedding of this stage does not share
  void reduce_stage(int stage);

 private:
  const StagePart& part(int stage) const { return (*parts_)[static_cast<size_t>(stage)]; }

  const ParamTable* table_;
  const std::vector<StagePart>* parts_;
  GradientSync* gradients_;
  std::map<int, int> left_;  // by unit: reductions to come in this step
};

}  // namespace fp
