// Interprets the facts of a machine for training: a finding with advice for each of them.
#pragma once

#include <string>
#include <vector>

#include "host/machine.h"

namespace fp {

enum class Verdict { good, note, problem };

struct Finding {
  Verdict verdict;
  std::string subject;  // "CPU", "memory", ...
  std::string text;     // the facts
  std::string advice;   // the consequence and what to do about it; empty when nothing needs to be done
};

std::vector<Finding> diagnose(const MachineFacts& machine);

// Formats the findings as aligned lines for a terminal; `colour` colours the verdicts.
std::string doctor_text(const std::vector<Finding>& findings, bool colour);
// Formats them as JSON: {"machine": facts, "findings": [{verdict, subject, text, advice}]}
std::string doctor_json(const MachineFacts& machine, const std::vector<Finding>& findings);

}  // namespace fp
