// Derives the options of the model and the executor from a run spec.
#pragma once

#include "config/run_spec.h"
#include "exec/executor.h"
#include "model/model.h"

namespace fp {

// Returns the model section with `vocab` filled in from the tokenizer where the spec does not set it.
ModelSection with_vocab(const ModelSection&, int64_t tokenizer_vocab);

// Returns the formats in which ranks exchange shards of weights and gradients (ZeRO).
ShardFormats shard_formats(const CommunicationSection&);

// Returns the number of ranks per node: parallel.ranks_per_node or, if that is 0, the number that was detected or
// planned. 1: the nodes have different numbers; 0: there is one node.
inline int64_t ranks_of_node(const ParallelSection& p) { return p.ranks_per_node > 0 ? p.ranks_per_node : p.node_size; }
// Returns the nodes of a run of `ranks` ranks.
NodeMap nodes_of(const ParallelSection&, int ranks);

// Returns the size of a run's checkpoint in bytes per parameter, on average.
double checkpoint_bytes_per_parameter(const RunSpec&, const ModelSection&, const Mesh&);

// For a whole model on one rank.
ModelOptions model_options(const RunSpec&);
ExecutorOptions executor_options(const RunSpec&);
// For a rank of a pipeline: the part of the model that it holds, and the plan of its steps.
ModelOptions model_options(const RunSpec&, const PipelinePlan&, int pipeline_rank);
ExecutorOptions executor_options(const RunSpec&, const PipelinePlan&);

// Returns the numbers of micro-batches per data-parallel rank that the steps of a run have: one number, or those of a
// batch-size ramp, ascending.
std::vector<int> step_sizes(const TrainSection&, int data_ranks);

// Returns the positions that the decoder of a run's sample text holds (eval.sample_prompt), an upper bound that does
// not depend on the tokenizer.
int64_t sample_positions(const RunSpec&);

// Return whether a run saves in the background, and the bytes of host memory that this takes on a rank.
bool saves_in_background(const RunSpec&);
size_t staging_bytes(const RunSpec&, const ParamTable&);

// Returns "llama, 4 layers x 256, 8 heads (2 kv) of 32, ffn 688, vocabulary 4096".
std::string describe_model(const ModelSection&);

}  // namespace fp
