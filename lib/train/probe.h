// One batch through a model, everything it computes written down: to compare with another program, or one device with
// another.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/run_spec.h"
#include "model/groups.h"
#include "ops/counting.h"
#include "train/weight_source.h"

namespace fp {

struct ProbeOptions {
  std::vector<std::vector<int32_t>> tokens;   // rows of equal length; the targets are the next tokens
  std::vector<std::vector<int32_t>> targets;  // or these; kIgnoredTarget: none
  std::string precision = "fp32";             // fp32 | bf16
  bool gradients = false;                     // of the mean loss, by parameter
  bool update = false;                        // one AdamW step from zero moments, with `optimizer`, unclipped
  OptimizerSection optimizer;
  std::vector<double> reference_logp;  // of each row, not empty: loss and gradients are DPO's; rows are pairs
  DpoSpec dpo;
};

// Reads {"tokens": [[..],..], "targets": [[..],..], "reference_logp": [..]}, of which only the first must be there.
// DataError for anything else, by its place.
void read_probe_batch(const std::filesystem::path& json_file, ProbeOptions&);

// Writes an HDF5 file: logits [rows, length, vocab] as they enter the softmax, loss [1], gradients/<parameter> and
// updated/<parameter> in their logical shapes. Without dropout. The file appears when it is complete; one that
// stood there stays until then. ConfigError for ids outside the vocabulary, and where `out` is no file.
void probe(const WeightSource&, const ProbeOptions&, Ops&, CountingOps&, const Groups&,
           const std::filesystem::path& out);

}  // namespace fp
