// The values that keys of a run spec choose from. names_of() returns them as they are written in YAML.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/enum_names.h"
#include "base/optimizer_list.h"

namespace fp {

// Device of a run. `automatic`, written "auto", is a GPU if one can be used, else the CPU.
enum class RunDevice { automatic, cpu, cuda, ref };
EnumNames names_of(RunDevice);

enum class RopeKind { none, standard, linear, llama3, longrope };
EnumNames names_of(RopeKind);

// The types that a run computes or adds gradients in: the first enumerators of DType.
EnumNames names_of(DType);

// Orders of the passes of a pipeline (lib/pipeline/orders.h has their sources).
enum class PipelineSchedule : uint8_t {
  gpipe,
  one_f_one_b,
  interleaved,
  bfs,
  zb_h1,
  zb_h2,
  zb_v,
  interleaved_zb,
  chimera,
  bitpipe,
  dualpipe,
  dualpipev,
  zeropp,
  wave,
};
EnumNames names_of(PipelineSchedule);

// Which activations are kept for the backward pass; the others are recomputed. All values give the same numbers.
enum class Recompute : uint8_t {
  none,       // keep everything
  selective,  // recompute norms and activation functions: cheap to compute, large to keep
  full,       // keep each block's input only
};
EnumNames names_of(Recompute);

// Where something is kept that the device needs only at times: in its own memory, or in the host's.
enum class Offload : uint8_t { none, host };
EnumNames names_of(Offload);

enum class Objective { pretrain, sft, dpo };
EnumNames names_of(Objective);

// The reaction to a loss or gradient that is not finite.
enum class Nonfinite { stop, skip };
EnumNames names_of(Nonfinite);

enum class OptimizerKind {
#define FP_OPTIMIZER(Rule, name) name,
  FP_OPTIMIZERS(FP_OPTIMIZER)
#undef FP_OPTIMIZER
      muon,
};
EnumNames names_of(OptimizerKind);

// The factor on Muon's orthogonalized update of a matrix: `rms` 0.2 sqrt(max(rows, columns)), which gives it the size
// of AdamW's updates; `spectral` sqrt(max(1, rows / columns)).
enum class MuonScale : uint8_t { rms, spectral };
EnumNames names_of(MuonScale);

enum class LearningRateSchedule { cosine, linear, constant, wsd };
EnumNames names_of(LearningRateSchedule);

enum class DecayShape { minus_sqrt, linear, cosine, exponential };
EnumNames names_of(DecayShape);

enum class Sampling { packed, documents };
EnumNames names_of(Sampling);

// The treatment of documents with more targets than a sample.
enum class LongDocuments { error, truncate, drop };
EnumNames names_of(LongDocuments);

// Who may read the files of a run. `owner` is written "private".
enum class Permissions { umask, owner, group };
EnumNames names_of(Permissions);

}  // namespace fp
