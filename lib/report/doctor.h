// What a machine's facts mean for training: a verdict a person can act on for each of them.
#pragma once

#include <string>
#include <vector>

#include "report/machine.h"

namespace fp {

enum class Verdict { good, note, problem };

struct Finding {
  Verdict verdict;
  std::string subject;  // "CPU", "memory", ...
  std::string text;     // what there is
  std::string advice;   // what it means and what to do about it; empty when there is nothing to do
};

std::vector<Finding> diagnose(const MachineFacts& machine);

// Aligned lines for a terminal; `colour` marks the verdicts.
std::string doctor_text(const std::vector<Finding>& findings, bool colour);
// {"machine": facts, "findings": [{verdict, subject, text, advice}]}
std::string doctor_json(const MachineFacts& machine, const std::vector<Finding>& findings);

}  // namespace fp
