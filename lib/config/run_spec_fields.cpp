#include "config/run_spec_fields.h"

namespace fp {

// global_batch / (micro_batch x parallel.data) micro-batches are accumulated.
const std::vector<std::string_view> kAccumulation = {"gradient_accumulation_steps", "gradient_accumulation",
                                                     "grad_accum_steps", "accumulate_grad_batches"};
const std::vector<std::string_view> kPerRank = {
    "gradient_accumulation_steps", "gradient_accumulation",       "grad_accum_steps",
    "accumulate_grad_batches",     "per_device_train_batch_size", "micro_batch_size"};
const std::vector<std::string_view> kDataFormats = {"auto", "prepared", "megatron", "llmc", "nanogpt"};

void declare(Fields& f, RunSection& s) {
  f.add("name", s.name, {.doc = "Names the run in logs and reports, and its folder when `directory` is empty."});
  f.add("directory", s.directory,
        {.doc = "Where the run keeps its resolved spec, metrics, report and checkpoints. Empty: `runs/<name>`."});
  f.add("seed", s.seed,
        {.doc =
             "Source of every random number: initial weights, order of the data, dropout. The same seed gives the same "
             "run, whatever the number of threads or ranks."});
  f.add("device", s.device,
        {.doc = "Device that computes. `auto`: an NVIDIA GPU if one can be used, else the CPU; the log names the "
                "choice and the reason. `cuda`: a GPU; an error if there is none. `cpu`: kernels for this CPU's vector "
                "units. `ref`: plain loops, the reference for tests; very slow."});
  f.add("threads", s.threads,
        {.doc = "Compute threads. 0: one per core that this process may use, within its share of the control group's "
                "quota. The number never changes results.",
         .min = 0,
         .max = 4096});
  f.add("permissions", s.permissions,
        {.doc = "Who may read the files of the run: its directory, checkpoints, metrics, log and reports, on every "
                "rank. `umask`: given by the umask of the process. `private`: only the user (folders 0700, files "
                "0600). `group`: also the folder's group (0750, 0640). An existing run directory gets the mode, too."});
}

void declare(Fields& f, DatasetSpec& s) {
  f.add("path", s.path,
        {.doc = "Folder made by `fptrain data prepare`, or a dataset of another trainer, read in place: a Megatron "
                "prefix, or an llm.c or nanoGPT file or a pattern of file names (`train_*.bin`). Relative paths start "
                "at the working directory.",
         .required = true});
  f.add(
      "format", s.format,
      {.doc =
           "Format of `path`. `auto`: detected from the content; not possible for nanoGPT, whose files have no header.",
       .choices = kDataFormats});
  f.add("weight", s.weight,
        {.doc = "Fraction of the samples drawn from this dataset, relative to the other weights.",
         .min = 0,
         .above_min = true});
}

void declare(Fields& f, DataSection& s) {
  f.add("train", s.train, {.doc = "One or more datasets, mixed by weight. Needed to train."});
  f.add("validation", s.validation,
        {.doc =
             "Dataset to evaluate on. A prepared folder gives its held-out split, or everything if it has none; other "
             "formats give everything. A dataset that is also trained on is refused. Empty: the held-out split of each "
             "training folder."});
  f.add("validation_format", s.validation_format,
        {.doc = "Format of `validation`, as `data.train[].format`.", .choices = kDataFormats});
  f.add("tokenizer", s.tokenizer,
        {.doc = "`bytes`, a tokenizer file or a Hugging Face folder, for datasets without their own tokenizer (all but "
                "prepared folders)."});
  f.add("sampling", s.sampling,
        {.doc =
             "How samples are made. `packed`: windows of the token stream, regardless of document boundaries. "
             "`documents`: one document per sample, padded to `seq_len`; for a preference folder, a pair of answers."});
  f.add("long_documents", s.long_documents,
        {.doc = "`sampling: documents`: treatment of documents with more than `seq_len` targets. `error`: refused. "
                "`truncate`: cut at the end. `drop`: left out."});
  f.add("seq_len", s.seq_len, {.doc = "Tokens per sample.", .unit = "tokens", .min = 1, .max = kMaxIds});
  f.add("mask_documents", s.mask_documents,
        {.doc = "Tokens attend only within their own document. false: they also attend to earlier documents of the "
                "sample."});
  f.add("reset_positions", s.reset_positions,
        {.doc = "Positions restart at 0 in each document of a sample. Needs `mask_documents`."});
  f.add("shuffle", s.shuffle,
        {.doc = "Samples come in a random order, drawn from the seed anew in each epoch. false: in the order of the "
                "datasets."});
}

void declare(Fields& f, MuonSpec& s) {
  f.add("momentum", s.momentum,
        {.doc = "Decay of the sum of the gradients, which is applied as Nesterov's momentum.",
         .min = 0,
         .max = 1,
         .below_max = true});
  f.add("scale", s.scale,
        {.doc = "Factor on the orthogonalized update of a matrix. `rms`: 0.2 sqrt(max(rows, columns)), which gives it "
                "the size of AdamW's updates, so that AdamW's `lr` and `weight_decay` can be kept. `spectral`: "
                "sqrt(max(1, rows / columns)), for a `lr` of about 0.02."});
  f.add("adamw_lr", s.adamw_lr,
        {.doc = "Learning rate of embeddings, LM head and vectors, which AdamW updates, as a multiple of `lr`.",
         .min = 0,
         .above_min = true});
}

void declare(Fields& f, OptimizerSection& s) {
  f.add("kind", s.kind, {.doc = kOptimizerDoc});
  f.add("lr", s.lr, {.doc = "Peak learning rate.", .min = 0, .above_min = true});
  f.add(
      "beta1", s.beta1,
      {.doc =
           "Decay of the running mean of the gradient; `lion`: of the mean whose sign gives the direction of the step.",
       .min = 0,
       .max = 1,
       .below_max = true});
  f.add(
      "beta2", s.beta2,
      {.doc = "Decay of the running mean of the squared gradient; `lion`: of the gradient, from one step to the next.",
       .min = 0,
       .max = 1,
       .below_max = true});
  f.add("eps", s.eps,
        {.doc = "Added to the square root of the second moment, which keeps the first steps finite.",
         .min = 0,
         .above_min = true});
  f.add("weight_decay", s.weight_decay,
        {.doc = "Weight decay on tensors of two or more dimensions: matrices and embeddings, not biases or norms.",
         .min = 0});
  f.add("grad_clip", s.grad_clip,
        {.doc = "Gradients are scaled down to this global norm if it is larger. 0: no clipping.", .min = 0});
  f.add("muon", s.muon,
        {.doc = "Muon's own keys. It orthogonalizes each matrix of a layer by itself, and Q, K, V, gate and up also "
                "where they "
                "are fused in one parameter (but for the QKV of phi3small, whose heads are interleaved)."});
}

void declare(Fields& f, ScheduleSection& s) {
  f.add("kind", s.kind,
        {.doc = "Learning rate after the warm-up. `cosine` and `linear`: decays to min_lr_ratio * lr. `constant`: "
                "stays at lr. `wsd`: stays at lr, then decays over the last `decay_steps`."});
  f.add("warmup_steps", s.warmup_steps,
        {.doc = "The learning rate rises linearly to lr over this many steps.",
         .unit = "steps",
         .min = 0,
         .max = kMaxCount});
  f.add("min_lr_ratio", s.min_lr_ratio,
        {.doc = "Final learning rate as a fraction of lr. Not for `constant`.", .min = 0, .max = 1});
  f.add(
      "decay_steps", s.decay_steps,
      {.doc = "cosine, linear: the step at which the final learning rate is reached (0: the last). wsd: length of the "
              "decay (0: 20% of the steps).",
       .unit = "steps",
       .min = 0,
       .max = kMaxCount});
  f.add(
      "decay_shape", s.decay_shape,
      {.doc =
           "wsd: shape of the decay over x from 0 to 1. `linear`: 1 - x. `cosine`: (1 + cos(pi x)) / 2. `exponential`: "
           "2 * 0.5^x - 1. `minus_sqrt`: 1 - sqrt(x)."});
}

void declare(Fields& f, DpoSpec& s) {
  f.add("beta", s.beta,
        {.doc = "Strength of the tie to the reference model: the loss is -log sigmoid(beta * margin).",
         .min = 0,
         .above_min = true});
  f.add("label_smoothing", s.label_smoothing,
        {.doc = "Assumed fraction of pairs whose chosen and rejected answers are swapped.",
         .min = 0,
         .max = 0.5,
         .below_max = true});
  f.add("nll_weight", s.nll_weight,
        {.doc = "Weight of the chosen answer's mean loss per token, which is added to the loss (Llama 3: 0.2).",
         .min = 0});
  f.add("reference", s.reference,
        {.doc = "The reference model: checkpoint, run directory or Hugging Face folder. Empty: `model.init_from`. Its "
                "log-probabilities are computed once and kept in the run directory."});
}

namespace {

void declare_length(Fields& f, TrainSection& s) {
  f.add("steps", s.steps,
        {.doc = "Optimizer steps. `tokens` and `epochs` are other ways to say it.",
         .unit = "steps",
         .min = 1,
         .max = kMaxCount});
  f.add("tokens", s.tokens,
        {.doc = "Instead of `steps`: the first number of steps that trains on at least this number of tokens, "
                "padding included. 0: not used; a resolved spec has the steps.",
         .unit = "tokens",
         .min = 0,
         .max = kMaxCount,
         .elsewhere = {"max_tokens", "train_tokens"}});
  f.add("epochs", s.epochs,
        {.doc = "Instead of `steps`: the first number of steps that trains on at least this multiple of the samples of "
                "`data.train`. The samples of several datasets are added up; their weights still decide how often each "
                "is seen. 0: not "
                "used; a resolved spec has the steps.",
         .unit = "epochs",
         .min = 0,
         .max = 1e6,
         .elsewhere = {"num_train_epochs", "num_epochs", "max_epochs", "n_epochs"}});
}

}  // namespace

void declare(Fields& f, TrainSection& s) {
  f.add("objective", s.objective,
        {.doc = "`pretrain`: predict every token. `sft`: predict only the answers of conversations, which the data "
                "must mark (`fptrain data prepare --chat`). `dpo`: prefer chosen answers to rejected ones (`data "
                "prepare --preferences`); a sample is then a pair."});
  f.add("dpo", s.dpo, {.doc = "Direct preference optimisation."});
  declare_length(f, s);
  f.add(
      "global_batch", s.global_batch,
      {.doc =
           "Samples per optimizer step, a multiple of micro_batch. The gradients of the micro-batches are accumulated.",
       .unit = "samples",
       .min = 1,
       .max = 1e9,
       .elsewhere = kAccumulation});
  f.add("micro_batch", s.micro_batch,
        {.doc = "Samples per forward and backward pass of a rank. Larger is faster until memory runs out.",
         .unit = "samples",
         .min = 1,
         .max = 1e9,
         .elsewhere = kPerRank});
  f.add(
      "ramp_start_batch", s.ramp_start_batch,
      {.doc = "Batch-size ramp: global batch of the first step. 0: no ramp.", .unit = "samples", .min = 0, .max = 1e9});
  f.add("ramp_increment", s.ramp_increment,
        {.doc = "Batch-size ramp: added to the batch at equal intervals until global_batch is reached; a multiple of "
                "micro_batch.",
         .unit = "samples",
         .min = 0,
         .max = 1e9});
  f.add("ramp_samples", s.ramp_samples,
        {.doc = "Batch-size ramp: samples until global_batch is reached.",
         .unit = "samples",
         .min = 0,
         .max = kMaxCount});
  f.add("z_loss", s.z_loss,
        {.doc = "Coefficient of mean(log(Z)^2), which keeps the softmax's normalizer near 1. Usual: 1e-4. 0: off.",
         .min = 0});
  f.add("nonfinite", s.nonfinite,
        {.doc = "If a loss or gradient is not finite, the update is not applied. `stop`: end with exit code 4 and keep "
                "the last good checkpoint. `skip`: continue with the next step."});
  f.add("nonfinite_limit", s.nonfinite_limit,
        {.doc = "skip: more skipped steps in a row than this stop the run.",
         .unit = "steps",
         .min = 1,
         .max = kMaxCount});
  f.add("max_minutes", s.max_minutes,
        {.doc = "Evaluate, save and stop after this time. 0: no limit.", .unit = "minutes", .min = 0});
  f.add("check_replicas", s.check_replicas,
        {.doc = "Interval at which replicas of the state on several ranks are compared; the run stops if they differ. "
                "0: only before saves (checkpoint.check_replicas).",
         .unit = "steps",
         .min = 0,
         .max = kMaxCount});
  f.add("check_sums", s.check_sums,
        {.doc = "Check in each step, by a checksum, that the reduced gradients are the sum over the data-parallel "
                "ranks; the run stops if they are not. Sums that `communication` quantizes are not checked."});
  f.add("check_repeats", s.check_repeats,
        {.doc = "Interval of steps whose gradients are computed twice; the run stops if their bits differ. This is the "
                "only check of a rank's own computation; such a step takes twice as long. 0: never.",
         .unit = "steps",
         .min = 0,
         .max = kMaxCount});
}

void declare(Fields& f, CheckpointSection& s) {
  f.add(
      "every", s.every,
      {.doc = "Steps between saves. 0: only at the end and on signals.", .unit = "steps", .min = 0, .max = kMaxCount});
  f.add("keep_last", s.keep_last, {.doc = "Newest checkpoints to keep. 0: all.", .min = 0, .max = kMaxCount});
  f.add("keep_every", s.keep_every,
        {.doc = "Also keep every checkpoint whose step is a multiple of this, itself a multiple of `every`. 0: none.",
         .unit = "steps",
         .min = 0,
         .max = kMaxCount});
  f.add("at_end", s.at_end, {.doc = "Save after the last step."});
  f.add("check_replicas", s.check_replicas,
        {.doc = "Compare replicas of the state on several ranks before each save, so that no checkpoint combines ranks "
                "that have diverged."});
  f.add("asynchronous", s.asynchronous,
        {.doc = "Write periodic saves in the background, from a copy in host memory: 12 bytes for each parameter that "
                "a rank saves. The predicted memory of a run includes it."});
  f.add("staging_mib", s.staging_mib,
        {.doc = "Host memory of each rank for the copy of `asynchronous` saves. If it is smaller than the data that a "
                "rank saves, training waits for the disk whenever it is full. 0: as much as a rank saves.",
         .unit = "MiB",
         .min = 0,
         .max = int64_t{1} << 40});
  f.add("node_local", s.node_local,
        {.doc = "A folder on each node's own disk. Periodic saves are first written there and then copied to "
                "`run.directory`. Empty: written to `run.directory` directly."});
  f.add("time_margin_s", s.time_margin_s,
        {.doc = "In a Slurm job: save and end with exit code 75 once the remaining time is less than this plus one "
                "step, one save and the evaluation that is due, if one is, estimated from those so far.",
         .unit = "seconds",
         .min = 0});
}

void declare(Fields& f, LoggingSection& s) {
  f.add("every", s.every,
        {.doc = "Steps between lines in metrics.jsonl.", .unit = "steps", .min = 1, .max = kMaxCount});
  f.add("console_every", s.console_every,
        {.doc = "Steps between plain lines in the log (a terminal also has a live line).",
         .unit = "steps",
         .min = 1,
         .max = kMaxCount});
  f.add("tensorboard", s.tensorboard, {.doc = "Write TensorBoard events."});
  f.add("report", s.report, {.doc = "Write report.html with plots, the resolved spec and the machine."});
}

void declare(Fields& f, EvalSection& s) {
  f.add("every", s.every,
        {.doc = "Steps between evaluations. 0: only at the end, which is the last step or that of train.max_minutes. A "
                "run that a signal or the end of its job stops is not evaluated: its time belongs to the save.",
         .unit = "steps",
         .min = 0,
         .max = kMaxCount});
  f.add("samples", s.samples,
        {.doc = "Held-out samples per evaluation, spread evenly over the held-out text of all datasets. 0: all.",
         .unit = "samples",
         .min = 0,
         .max = kMaxCount});
  f.add("by_position", s.by_position, {.doc = "Also the loss by range of positions."});
  f.add("sample_prompt", s.sample_prompt,
        {.doc = "Text that the model continues at each evaluation, for the log and the report. Needs the whole model "
                "on each rank: `parallel` may only have `data`, with zero_stage 0 to 2. Empty: no sample text."});
  f.add("sample_tokens", s.sample_tokens,
        {.doc = "Tokens that continue `sample_prompt`, at most; with the prompt not more than data.seq_len.",
         .unit = "tokens",
         .min = 1,
         .max = kMaxIds});
  f.add("sample_temperature", s.sample_temperature,
        {.doc = "Temperature of the sample text; run.seed is its seed. 0: always the most likely token.",
         .min = 0,
         .max = 100});
}

void declare(Fields& f, RunSpec& s) {
  f.add("run", s.run, {.doc = "The run as a whole."});
  f.add("model", s.model, {.doc = "Architecture of the model."});
  f.add("data", s.data, {.doc = "Training and validation data."});
  f.add("optimizer", s.optimizer, {.doc = "Optimizer and its hyperparameters."});
  f.add("schedule", s.schedule, {.doc = "Learning-rate schedule."});
  f.add("train", s.train, {.doc = "Length of the run, batch sizes, and numerical checks."});
  f.add("parallel", s.parallel, {.doc = "How ranks divide the work."});
  f.add("communication", s.communication,
        {.doc = "What ranks with shards of the same parameters send (ZeRO++). Quantization changes results, and is off "
                "unless "
                "it is set here."});
  f.add("memory", s.memory, {.doc = "Trade-offs between memory and time."});
  f.add("precision", s.precision, {.doc = "Number formats."});
  f.add("checkpoint", s.checkpoint, {.doc = "Frequency of saves and retention of checkpoints."});
  f.add("logging", s.logging, {.doc = "Logs and metrics written while training."});
  f.add("eval", s.eval, {.doc = "Evaluation on held-out text."});
  f.add(
      "watchdog", s.watchdog,
      {.doc =
           "Ends a stalled run. If no rank makes progress within the limit of its phase, or one rank does not reach a "
           "communication within it, the run names the suspect ranks, prints stacks and ends with exit code 76."});
}

}  // namespace fp
