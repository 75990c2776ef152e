#include "exec/unit_reductions.h"

#include <algorithm>

namespace fp {

void UnitReductions::begin_step(std::span<const Action> actions) {
  left_.clear();
  for (const Action& a : actions)
    if (a.kind == ActionKind::reduce)
      for (const int unit : units(a.stage)) ++left_[unit];
}

void UnitReductions::end_step() const {
  for (const auto& [unit, left] : left_)
    FP_CHECK(left == 0, "{} reductions of the gradients of unit {} are missing", left, unit);
}

std::vector<int> UnitReductions::units(int stage) const {
  const StagePart& p = part(stage);
  const std::vector<int> embedding = p.embedding ? table_->embedding_units() : std::vector<int>();
  std::vector<int> list;
  if (p.head)
    for (const int u : table_->head_units())
      if (std::find(embedding.begin(), embedding.end(), u) == embedding.end()) list.push_back(u);
  for (int64_t l = p.layers; l-- > 0;) list.push_back(table_->layer_unit(p.first_layer + l));
  list.insert(list.end(), embedding.rbegin(), embedding.rend());
  return list;
}

void UnitReductions::reduce(int unit, int stage) {
  const StagePart& p = part(stage);
  const bool in_two = !(p.embedding && p.head) && table_->is_tied_unit(unit);
  const int left = --left_.at(unit);
  if (!in_two || left == 0) gradients_->reduce(unit, left == 0);
}

void UnitReductions::reduce_head(int stage) {
  for (const int u : table_->head_units())
    if (!part(stage).embedding || !table_->is_tied_unit(u)) reduce(u, stage);
}

void UnitReductions::reduce_stage(int stage) {
  for (const int u : units(stage)) reduce(u, stage);
}

}  // namespace fp
