// Runs one batch through a model and writes everything that it computes to a file, to compare with another program or
// device.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/run_spec.h"
#include "interop/weight_source.h"
#include "model/groups.h"
#include "ops/counting.h"

namespace fp {

struct ProbeOptions {
  std::vector<std::vector<int32_t>> tokens;   // rows of equal length; by default the targets are the next tokens
  std::vector<std::vector<int32_t>> targets;  // overrides the targets; kIgnoredTarget: no loss at this position
  DType precision = DType::f32;
  bool gradients = false;  // write gradients of the mean loss, by parameter
  bool update = false;     // write weights after one AdamW step from zero moments, with `optimizer`, unclipped
  OptimizerSection optimizer;
  std::vector<double> reference_logp;  // one per row; if not empty, the loss is DPO's and rows form pairs
  DpoSpec dpo;
};

// Reads {"tokens": [[..],..], "targets": [[..],..], "reference_logp": [..]}, of which only "tokens" is required. Throws
// DataError with the location of anything else.
void read_probe_batch(const std::filesystem::path& json_file, ProbeOptions&);

// Returns the bytes of the arena for these outputs: weights, and gradients and optimizer state only where needed.
size_t probe_bytes(const ModelSection&, const ProbeOptions&, CountingOps&, const Groups&);

// Writes an HDF5 file: logits [rows, length, vocab] as they enter the softmax, loss [1], gradients/<parameter> and
// updated/<parameter> in their logical shapes. Dropout is off. The file appears, replacing an existing one, only when
// it is complete. Throws ConfigError for ids outside the vocabulary, and when `out` does not name a file.
void probe(const WeightSource&, const ProbeOptions&, Ops&, CountingOps&, const Groups&,
           const std::filesystem::path& out);

}  // namespace fp
