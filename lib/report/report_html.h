// report.html: one file that shows a run, with no need of a network. And the picture of its loss curve.
#pragma once

#include <filesystem>
#include <string>

#include "report/history.h"
#include "report/run_facts.h"

namespace fp {

// The texts of a run directory that a report quotes; empty: absent.
struct RunTexts {
  std::string spec;  // config.yaml, resolved
  std::string plan;  // plan.txt
};

// The page. Depends on nothing but its arguments; `now` (seconds since 1970) is the time it tells.
std::string report_page(const RunFacts& facts, const History& history, const RunTexts& texts, double now);

// The loss curve as an SVG file for a README.
std::string loss_picture(const RunFacts& facts, const History& history);

// Saves `facts` and writes report.html from metrics.jsonl, config.yaml and plan.txt of the run directory, atomically.
void write_report(const std::filesystem::path& run_directory, const RunFacts& facts);

// The same from the facts saved before. DataError when the folder holds no metrics.jsonl.
void write_report(const std::filesystem::path& run_directory);

// loss_picture() of a run directory into `svg_file`.
void write_loss_picture(const std::filesystem::path& run_directory, const std::filesystem::path& svg_file);

}  // namespace fp
