// Writes report.html, one self-contained file that shows a run, and an SVG picture of its loss curve.
#pragma once

#include <filesystem>
#include <string>

#include "report/history.h"
#include "report/run_facts.h"

namespace fp {

// Texts of a run directory that the report quotes; empty if absent.
struct RunTexts {
  std::string spec;  // config.yaml, resolved
  std::string plan;  // plan.txt
};

// Returns the page. Depends only on its arguments; `now` (seconds since 1970) is the time shown on the page.
std::string report_page(const RunFacts& facts, const History& history, const RunTexts& texts, double now);

// Returns the loss curve as an SVG file for a README.
std::string loss_picture(const RunFacts& facts, const History& history);

// Saves `facts` and writes report.html from metrics.jsonl, config.yaml and plan.txt of the run directory, atomically.
void write_report(const std::filesystem::path& run_directory, const RunFacts& facts);

// As above, with the facts saved before. Throws DataError if the folder has no metrics.jsonl.
void write_report(const std::filesystem::path& run_directory);

// Writes loss_picture() of a run directory to `svg_file`.
void write_loss_picture(const std::filesystem::path& run_directory, const std::filesystem::path& svg_file);

}  // namespace fp
