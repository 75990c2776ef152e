// fptrain eval --needle: recall of key-value pairs by length and depth.
#pragma once

#include <string>
#include <vector>

#include "command_line.h"
#include "hdf5_flag.h"
#include "inference/needle_eval.h"
#include "older_flag.h"

namespace fp {

// The arguments of all forms of `fptrain eval`.
struct EvalArguments {
  std::string file, checkpoint, precision, choices, svg, device = "auto";
  std::vector<std::string> sets;
  int64_t samples = -1;  // -1: not given
  int64_t stride = 0;    // 0: not given
  std::string compare;
  int64_t rows = 8;
  bool json = false, by_position = false, needle = false;
  Hdf5Flag hdf5;
  OlderFlag older;
  std::string filler;
  NeedleOptions needle_options;
};

// Adds the options of --needle, which need that flag.
void add_needle_options(cli::App&, cli::Option* needle, EvalArguments&);
// Measures recall and prints it.
void run_needle(const EvalArguments&);

}  // namespace fp
