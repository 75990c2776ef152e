// A batch on the device.
#pragma once

#include "data/batch.h"
#include "exec/executor.h"

namespace fp {

struct Executor::Staged {
  ArenaTensor ids, targets, positions, doc_start, sample_ids;
  MicroBatch view;
};

}  // namespace fp
