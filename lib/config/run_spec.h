// RunSpec: the configuration of a run, one struct per section of the YAML file. The member initializers are the
// defaults; meaning, unit and legal values of each key are declared once, in run_spec_fields*.cpp and model_fields.cpp.
// Functions that read and write a RunSpec are in config/load.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/choices.h"
#include "config/family.h"

namespace fp {

struct RunSection {
  std::string name = "run";  // names the run in logs and reports
  std::string directory;     // run directory; empty: runs/<name>
  uint64_t seed = 1234;
  RunDevice device = RunDevice::automatic;
  int threads = 0;  // of a rank; 0: the cores this process may use
  Permissions permissions = Permissions::umask;

  bool operator==(const RunSection&) const = default;
};

struct RopeSpec {
  RopeKind kind = RopeKind::standard;
  double theta = 10000.0;
  double factor = 1.0;                     // linear, llama3
  double low_freq_factor = 1.0;            // llama3
  double high_freq_factor = 4.0;           // llama3
  int64_t original_max_position = 0;       // llama3, longrope
  double position_scale = 1.0;             // phi-3-small rope_position_scale: multiplies positions
  std::vector<double> short_factor;        // longrope, head_dim/2 values
  std::vector<double> long_factor;         // longrope, head_dim/2 values
  std::optional<double> attention_factor;  // longrope: overrides the computed factor on cos and sin
  bool scale_short = true;  // longrope: the factor also scales cos/sin when short factors are used (HF phi3)

  bool operator==(const RopeSpec&) const = default;
};

struct BlocksparseSpec {  // phi-3-small
  int64_t block = 64;
  int64_t local_blocks = 16;
  int64_t vertical_stride = 8;
  int64_t dense_every = 2;  // layer l is dense when (l + 1) % dense_every == 0; 0: no layer is blocksparse
  bool homo_heads = false;

  bool operator==(const BlocksparseSpec&) const = default;
};

struct MupSpec {           // phi-3-small multipliers; 1 = off
  double embedding = 1.0;  // multiplies embeddings
  double width = 1.0;      // divides logits
  double attention = 0.0;  // softmax scale = attention / head_dim; 0: 1/sqrt(head_dim)

  bool operator==(const MupSpec&) const = default;
};

struct ModelSection {
  std::string preset;         // as for find_preset; empty in a resolved spec
  std::string init_from;      // checkpoint, run directory or Hugging Face folder: architecture and initial weights
  bool init_changes = false;  // settings may differ from those of init_from where the shapes agree
  std::string name;           // label in logs and reports; empty: the preset's name, or the family
  Family family = Family::gpt;
  int64_t layers = 12;
  int64_t hidden = 768;
  int64_t heads = 12;
  int64_t kv_heads = 0;        // 0: same as heads
  int64_t head_dim = 0;        // 0: hidden / heads
  int64_t ffn = 0;             // 0: 4 * hidden; must be given for gated MLPs
  int64_t vocab = 0;           // 0: from the tokenizer of the data
  int64_t pad_vocab_to = 128;  // rows of the embedding are padded up to a multiple of this
  int64_t max_position = 1024;
  bool tied_embeddings = true;
  double norm_eps = 1e-5;
  double init_std = 0.02;
  bool scaled_residual_init = true;  // std / sqrt(2 * layers) on projections into the residual stream
  int64_t sliding_window = 0;        // keys a query sees, itself included; 0: no window
  double gegelu_limit = 20.0;
  std::vector<int64_t> masked_ids;  // token ids whose logits are -inf (phi-3-small dummy tokens)
  RopeSpec rope;
  BlocksparseSpec blocksparse;
  MupSpec mup;
  double dropout_embedding = 0.0;
  double dropout_attention = 0.0;
  double dropout_residual = 0.0;
  double dropout_ffn = 0.0;

  const FamilyTraits& traits() const { return traits_of(family); }
  bool operator==(const ModelSection&) const = default;
};

struct DatasetSpec {
  std::string path;  // prepared folder, or a dataset in a format of other trainers
  double weight = 1.0;
  std::string format = "auto";  // auto | prepared | megatron | llmc | nanogpt

  bool operator==(const DatasetSpec&) const = default;
};

struct DataSection {
  std::vector<DatasetSpec> train;  // one or more, mixed by weight
  std::string validation;          // dataset to evaluate on; default: the held-out split of the training folders
  std::string validation_format = "auto";  // as data.train[].format
  std::string tokenizer;                   // tokenizer of datasets without their own; default: none is needed
  Sampling sampling = Sampling::packed;
  LongDocuments long_documents = LongDocuments::error;  // documents
  int64_t seq_len = 1024;                               // tokens per sample
  bool mask_documents = false;                          // no attention across documents
  bool reset_positions = false;                         // positions restart at each document (needs mask_documents)
  bool shuffle = true;

  bool operator==(const DataSection&) const = default;
};

struct MuonSpec {  // optimizer.kind: muon
  double momentum = 0.95;
  MuonScale scale = MuonScale::rms;
  double adamw_lr = 1.0;  // learning rate of what AdamW updates, as a multiple of lr

  bool operator==(const MuonSpec&) const = default;
};

struct OptimizerSection {
  OptimizerKind kind = OptimizerKind::adamw;
  double lr = 6e-4;  // peak learning rate
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;  // on tensors of two or more dimensions
  double grad_clip = 1.0;     // global norm; 0: off
  MuonSpec muon;

  bool operator==(const OptimizerSection&) const = default;
};

struct ScheduleSection {
  LearningRateSchedule kind = LearningRateSchedule::cosine;
  int64_t warmup_steps = 0;
  double min_lr_ratio = 0.1;  // final lr = min_lr_ratio * lr
  int64_t decay_steps =
      0;  // wsd: length of the decay (0: 20% of the steps); cosine, linear: step where min is reached (0: last)
  DecayShape decay_shape = DecayShape::minus_sqrt;  // wsd

  bool operator==(const ScheduleSection&) const = default;
};

struct DpoSpec {  // train.objective: dpo
  double beta = 0.1;
  double label_smoothing = 0.0;
  double nll_weight = 0.0;
  std::string reference;  // the reference model; empty: model.init_from

  bool operator==(const DpoSpec&) const = default;
};

struct TrainSection {
  Objective objective = Objective::pretrain;
  DpoSpec dpo;
  int64_t steps = 1000;
  int64_t tokens = 0;            // another way to give `steps`; 0: not used, and always so once resolved
  double epochs = 0;             // another way to give `steps`; 0: not used, and always so once the data are known
  int64_t global_batch = 8;      // samples per optimizer step
  int64_t micro_batch = 8;       // samples per forward pass on one rank
  int64_t ramp_start_batch = 0;  // batch-size ramp: first global batch; 0: no ramp
  int64_t ramp_increment = 0;    // added at equal intervals until global_batch; multiple of micro_batch
  int64_t ramp_samples = 0;      // length of the ramp in samples
  double z_loss = 0.0;           // coefficient of mean(logZ^2)
  Nonfinite nonfinite = Nonfinite::stop;
  int64_t nonfinite_limit = 10;  // skip: more skipped steps in a row than this stop the run
  int64_t check_replicas = 0;    // steps between comparisons of the state across replicas; 0: at saves only
  bool check_sums = true;        // check gradient reductions over ranks with checksums
  int64_t check_repeats = 0;     // interval of steps whose gradients are computed twice; 0: never
  double max_minutes = 0.0;      // save and stop after this time; 0: no limit

  bool operator==(const TrainSection&) const = default;
};

// See ScheduleRequest (pipeline/schedule.h) for what 0 means.
struct PipelineSection {
  int64_t ranks = 1;
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  std::string schedule_file;
  int64_t chunks = 0, group = 0, unit_size = 0, unit_warmup = 0, window = 0;
  bool w_pass = false;
  int64_t memory_cap = 0;
  std::vector<int64_t> layers;       // layers of each stage; empty: auto
  std::vector<Recompute> recompute;  // recomputation of each stage; empty: memory.recompute for all
  int64_t resident_stages = 2;       // ZeRO 3: stages of a rank whose weights are gathered at a time

  bool operator==(const PipelineSection&) const = default;
};

struct ParallelSection {
  std::vector<std::string> open;  // key `auto`: keys left to the planner (config/open_keys.h); empty once chosen
  int64_t tensor = 1, sequence = 1;
  PipelineSection pipeline;
  int64_t data = 1;  // 0: all ranks that the other degrees leave
  bool megatron_sp = false;
  int64_t zero_stage = 0;
  bool allow_gpu_sharing = false;
  int64_t ranks_per_node = 0;  // 0: ranks with the same host name are on one node
  // No key: ranks per node, as found or planned. 0: all are on one node. 1: each is on a node of its own, or nodes have
  // different numbers of ranks, and each rank counts as a node.
  int64_t node_size = 0;
  std::string cluster;  // cluster description for time predictions; empty: none

  bool operator==(const ParallelSection&) const = default;
};

// How ranks exchange weights, gradients and tensor-parallel activations. Bits: 4, 8, or 0 for no quantization.
struct CommunicationSection {
  bool overlap = true;        // overlap tensor-parallel communication and gathers of new weights with computation
  int64_t tensor_pieces = 4;  // maximum number of pieces that tensor-parallel communication is split into
  bool by_nodes = false;      // hierarchical all-gathers, and reduce-scatters that are not quantized
  int64_t weight_bits = 0;
  bool weight_differences = false;  // send updated weights as differences to the weights that the other ranks hold
  bool node_weights = false;        // hpZ: the ranks of a node keep the weights that they have gathered, a part each
  int64_t gradient_bits = 0;
  int64_t node_gradient_bits = 0;  // within nodes; 0: gradient_bits
  int64_t block = 256;             // elements with a common scale
  bool rotate_gradients = false;   // multiply gradients by a Hadamard matrix before they are quantized
  double max_gradient_error = 0;   // limit on the quantization error of each parameter's gradients; 0: no limit
  double error_feedback = 0;       // weight of the newest quantization error in the moving average that is kept; 0: off
  int64_t error_feedback_steps = 512;  // updates after which the kept errors are reset to 0; 0: never

  bool operator==(const CommunicationSection&) const = default;
};

struct OffloadSection {
  Offload optimizer = Offload::none, activations = Offload::none, weights = Offload::none;
  double device_share = 1;              // of the offloaded state that is updated on the device, the rest on the host
  bool early_gradients = false;         // send the gradients of the host's updates during the backward pass
  int64_t subgroup = int64_t{1} << 22;  // elements that are updated at a time

  bool operator==(const OffloadSection&) const = default;
};

struct MemorySection {
  Recompute recompute = Recompute::none;
  OffloadSection offload;
  int64_t sequence_chunk_tokens = 0;    // tokens of a sequence that pass through a layer at a time; 0: all
  int64_t mlp_tile_tokens = 0;          // tokens whose MLP activations are in memory at a time; 0: all
  int64_t loss_chunk_tokens = 1024;     // tokens whose logits are in memory at a time
  double device_gib = 0, host_gib = 0;  // budgets of device memory by rank and of host memory by node; 0: none
  bool huge_pages = true;

  bool has_budget() const { return device_gib > 0 || host_gib > 0; }

  bool operator==(const MemorySection&) const = default;
};

struct PrecisionSection {
  DType compute = DType::bf16;  // bf16 (fp32 master weights, moments, gradients) or f32
  bool stochastic_rounding = false;
  DType gradients = DType::f32;  // type between micro-batches and in reductions

  bool operator==(const PrecisionSection&) const = default;
};

struct CheckpointSection {
  int64_t every = 1000;    // steps; 0: only at the end and on signals
  int64_t keep_last = 3;   // newest checkpoints kept; 0: all
  int64_t keep_every = 0;  // also keep every checkpoint whose step is a multiple; 0: none
  bool at_end = true;
  bool check_replicas = true;  // compare the state across replicas before each save
  bool asynchronous = true;    // periodic saves are written while training continues
  int64_t staging_mib = 0;     // staging area of a rank in MiB; 0: as much as it saves
  std::string node_local;      // folder on the node's own disk where rank files are written first; empty: none
  double time_margin_s = 60;   // Slurm: reserve before the job's end, beyond a step and a save

  bool operator==(const CheckpointSection&) const = default;
};

struct LoggingSection {
  int64_t every = 1;           // steps between lines in metrics.jsonl
  int64_t console_every = 10;  // steps between plain lines in the log
  bool tensorboard = true;
  bool report = true;

  bool operator==(const LoggingSection&) const = default;
};

struct EvalSection {
  int64_t every = 0;                // steps; 0: only at the end
  int64_t samples = 64;             // held-out samples per evaluation; 0: all
  bool by_position = false;         // also the loss of each range of positions
  std::string sample_prompt;        // text that the model continues at each evaluation; empty: no sample text
  int64_t sample_tokens = 100;      // at most, after the prompt
  double sample_temperature = 0.8;  // 0: always the most likely token

  bool operator==(const EvalSection&) const = default;
};

struct WatchdogSection {  // in seconds; a phase limit of 0 means no limit
  double heartbeat_s = 1, connect_s = 60;
  double setup_s = 1800, data_s = 1800, step_s = 600, evaluation_s = 1800, save_s = 3600;
  double farewell_s = 60;

  bool operator==(const WatchdogSection&) const = default;
};

struct RunSpec {
  RunSection run;
  ModelSection model;
  DataSection data;
  OptimizerSection optimizer;
  ScheduleSection schedule;
  TrainSection train;
  ParallelSection parallel;
  CommunicationSection communication;
  MemorySection memory;
  PrecisionSection precision;
  CheckpointSection checkpoint;
  LoggingSection logging;
  EvalSection eval;
  WatchdogSection watchdog;

  // Whether a run without a pipeline passes all micro-batches of a step through a layer before the next layer.
  bool breadth_first() const {
    return parallel.pipeline.ranks == 1 &&
           (parallel.pipeline.schedule == PipelineSchedule::bfs || memory.offload.weights == Offload::host);
  }
  bool operator==(const RunSpec&) const = default;
};

}  // namespace fp
