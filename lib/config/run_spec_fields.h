// Declares every field of the run spec: key, member, legal values, unit and meaning.
#pragma once

#include "config/fields/field.h"
#include "config/run_spec.h"

namespace fp {

constexpr double kMaxCount = 1e15;      // steps, samples
constexpr double kMaxIds = 2147483647;  // token ids and positions are 32-bit

void declare(Fields& f, RunSection& s);
void declare(Fields& f, RopeSpec& s);
void declare(Fields& f, BlocksparseSpec& s);
void declare(Fields& f, MupSpec& s);
void declare(Fields& f, ModelSection& s);
void declare(Fields& f, DatasetSpec& s);
void declare(Fields& f, DataSection& s);
void declare(Fields& f, MuonSpec& s);
void declare(Fields& f, OptimizerSection& s);
void declare(Fields& f, ScheduleSection& s);
void declare(Fields& f, DpoSpec& s);
void declare(Fields& f, TrainSection& s);
void declare(Fields& f, PipelineSection& s);
void declare(Fields& f, ParallelSection& s);
void declare(Fields& f, CommunicationSection& s);
void declare(Fields& f, OffloadSection& s);
void declare(Fields& f, MemorySection& s);
void declare(Fields& f, PrecisionSection& s);
void declare(Fields& f, CheckpointSection& s);
void declare(Fields& f, LoggingSection& s);
void declare(Fields& f, EvalSection& s);
void declare(Fields& f, WatchdogSection& s);
void declare(Fields& f, RunSpec& s);

}  // namespace fp
