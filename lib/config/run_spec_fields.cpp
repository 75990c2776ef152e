#include "config/run_spec_fields.h"

namespace fp {

constexpr double kMaxCount = 1e15;      // steps, samples
constexpr double kMaxIds = 2147483647;  // token ids and positions are 32-bit
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
        {.doc = "What computes. `auto`: an NVIDIA GPU where one can be used, else the CPU; the log says which and why. "
                "`cuda`: a GPU or an error. `cpu`: oneDNN and OpenMP. `ref`: plain loops, the oracle for tests; very "
                "slow.",
         .choices = {"auto", "cpu", "cuda", "ref"}});
  f.add("threads", s.threads,
        {.doc = "Threads that compute. 0: one per core this process may use.", .min = 0, .max = 4096});
}

void declare(Fields& f, DatasetSpec& s) {
  f.add("path", s.path,
        {.doc = "Folder made by `fptrain data prepare`; or a dataset of another trainer, read in place: a Megatron "
                "prefix, or an llm.c or nanoGPT file or a pattern of such (`train_*.bin`). Relative paths start at the "
                "working directory.",
         .required = true});
  f.add("format", s.format,
        {.doc = "What `path` is. `auto`: told by its content, except for nanoGPT's, which has nothing to tell it by.",
         .choices = kDataFormats});
  f.add("weight", s.weight,
        {.doc = "Share of the samples drawn from this dataset, relative to the other weights.",
         .min = 0,
         .above_min = true});
}

void declare(Fields& f, DataSection& s) {
  f.add("train", s.train, {.doc = "One or more datasets, mixed by weight. Needed to train."});
  f.add("validation", s.validation,
        {.doc = "Dataset to evaluate on, with all its documents. Empty: the held-out split of the training folders."});
  f.add("validation_format", s.validation_format, {.doc = "What `validation` is.", .choices = kDataFormats});
  f.add("tokenizer", s.tokenizer,
        {.doc = "`bytes` or a tokenizer file, for the datasets that do not carry one (all but prepared folders)."});
  f.add(
      "sampling", s.sampling,
      {.doc = "What a sample is. `packed`: a window of the stream, wherever documents begin and end. `documents`: one "
              "document, filled up to `seq_len`; of a preference folder a pair of them.",
       .choices = {"packed", "documents"}});
  f.add("long_documents", s.long_documents,
        {.doc = "`sampling: documents`: what becomes of a document with more than `seq_len` targets. `error`: refused. "
                "`truncate`: cut at the end. `drop`: left out.",
         .choices = {"error", "truncate", "drop"}});
  f.add("seq_len", s.seq_len, {.doc = "Tokens per sample.", .unit = "tokens", .min = 1, .max = kMaxIds});
  f.add("mask_documents", s.mask_documents,
        {.doc = "Tokens attend only within their own document. false: a sample's documents see those before them."});
  f.add("reset_positions", s.reset_positions,
        {.doc = "Positions start again at 0 in each document of a sample. Needs `mask_documents`."});
  f.add("shuffle", s.shuffle,
        {.doc = "Samples come in an order drawn from the seed, anew each epoch. false: in the order of the datasets."});
}

void declare(Fields& f, OptimizerSection& s) {
  f.add("kind", s.kind, {.doc = "`adamw`: Adam with decoupled weight decay.", .choices = {"adamw"}});
  f.add("lr", s.lr, {.doc = "Peak learning rate.", .min = 0, .above_min = true});
  f.add("beta1", s.beta1, {.doc = "Decay of the running mean of the gradient.", .min = 0, .max = 1, .below_max = true});
  f.add("beta2", s.beta2,
        {.doc = "Decay of the running mean of the squared gradient.", .min = 0, .max = 1, .below_max = true});
  f.add("eps", s.eps,
        {.doc = "Added to the root of the second moment; keeps the first steps finite.", .min = 0, .above_min = true});
  f.add("weight_decay", s.weight_decay,
        {.doc = "Pull towards 0 on tensors of two or more dimensions: matrices and embeddings, not biases or norms.",
         .min = 0});
  f.add("grad_clip", s.grad_clip,
        {.doc = "Gradients are scaled down to this global norm when it is exceeded. 0: never.", .min = 0});
}

void declare(Fields& f, ScheduleSection& s) {
  f.add("kind", s.kind,
        {.doc = "Learning rate after the warm-up. `cosine` and `linear`: down to min_lr_ratio * lr. `constant`: stays "
                "at lr. "
                "`wsd`: stays at lr, then decays over the last `decay_steps`.",
         .choices = {"cosine", "linear", "constant", "wsd"}});
  f.add("warmup_steps", s.warmup_steps,
        {.doc = "The learning rate rises linearly to lr over this many steps.",
         .unit = "steps",
         .min = 0,
         .max = kMaxCount});
  f.add("min_lr_ratio", s.min_lr_ratio,
        {.doc = "Final learning rate as a share of lr. Not for `constant`.", .min = 0, .max = 1});
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
           "2 * 0.5^x - 1. `minus_sqrt`: 1 - sqrt(x).",
       .choices = {"minus_sqrt", "linear", "cosine", "exponential"}});
}

void declare(Fields& f, DpoSpec& s) {
  f.add("beta", s.beta,
        {.doc = "How strongly the model is held to the reference: the loss is -log sigmoid(beta * margin).",
         .min = 0,
         .above_min = true});
  f.add("label_smoothing", s.label_smoothing,
        {.doc = "Assumed share of pairs whose answers are the wrong way round.",
         .min = 0,
         .max = 0.5,
         .below_max = true});
  f.add("nll_weight", s.nll_weight,
        {.doc = "Adds this times the chosen answer's mean loss per token (Llama 3: 0.2).", .min = 0});
  f.add("reference", s.reference,
        {.doc = "The reference model: checkpoint, run directory or Hugging Face folder. Empty: `model.init_from`. Its "
                "log-probabilities are computed once and kept in the run directory."});
}

void declare(Fields& f, TrainSection& s) {
  f.add(
      "objective", s.objective,
      {.doc = "`pretrain`: predict every token. `sft`: the answers of conversations only; the data must say which "
              "tokens those are (`fptrain data prepare --chat`). `dpo`: prefer chosen answers to rejected ones (`data "
              "prepare --preferences`); a sample is then a pair.",
       .choices = {"pretrain", "sft", "dpo"}});
  f.add("dpo", s.dpo, {.doc = "Direct preference optimisation."});
  f.add("steps", s.steps, {.doc = "Optimizer steps.", .unit = "steps", .min = 1, .max = kMaxCount});
  f.add("global_batch", s.global_batch,
        {.doc = "Samples per optimizer step; a multiple of micro_batch, whose gradients are accumulated.",
         .unit = "samples",
         .min = 1,
         .max = 1e9});
  f.add("micro_batch", s.micro_batch,
        {.doc = "Samples per forward and backward pass: more is faster until memory runs out.",
         .unit = "samples",
         .min = 1,
         .max = 1e9});
  f.add(
      "ramp_start_batch", s.ramp_start_batch,
      {.doc = "Batch-size ramp: global batch of the first step. 0: no ramp.", .unit = "samples", .min = 0, .max = 1e9});
  f.add("ramp_increment", s.ramp_increment,
        {.doc = "Batch-size ramp: added at equal intervals until global_batch is reached; a multiple of micro_batch.",
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
  f.add(
      "nonfinite", s.nonfinite,
      {.doc =
           "When a loss or gradient is not finite the update is not applied. `stop`: end with exit code 4, keeping the "
           "last good checkpoint. `skip`: go on with the next step.",
       .choices = {"stop", "skip"}});
  f.add("nonfinite_limit", s.nonfinite_limit,
        {.doc = "skip: more skipped steps in a row than this stop the run.",
         .unit = "steps",
         .min = 1,
         .max = kMaxCount});
  f.add("max_minutes", s.max_minutes,
        {.doc = "Save and stop after this much time. 0: no limit.", .unit = "minutes", .min = 0});
  f.add("check_replicas", s.check_replicas,
        {.doc = "Every so many steps compare what several ranks hold copies of, and stop where they differ. 0: only "
                "before saves (checkpoint.check_replicas).",
         .unit = "steps",
         .min = 0,
         .max = kMaxCount});
  f.add("check_sums", s.check_sums,
        {.doc = "Prove in each step, by a checksum, that the gradients summed over data ranks are the sum of what the "
                "ranks gave, and stop where they are not."});
  f.add(
      "check_repeats", s.check_repeats,
      {.doc = "Every so many steps compute the gradients of the step twice, and stop where their bits differ. The only "
              "check of what a rank computes by itself; such a step takes twice its time. 0: never.",
       .unit = "steps",
       .min = 0,
       .max = kMaxCount});
}

void declare(Fields& f, MemorySection& s) {
  f.add("recompute", s.recompute,
        {.doc =
             "Activations computed again in the backward pass instead of kept; the numbers do not change. `selective`: "
             "the cheap ones. `full`: all of a block but its input.",
         .choices = {"none", "selective", "full"}});
  f.add("loss_chunk_tokens", s.loss_chunk_tokens,
        {.doc = "Tokens whose logits exist at one time: less memory for large vocabularies.",
         .unit = "tokens",
         .min = 1,
         .max = kMaxIds});
  f.add("huge_pages", s.huge_pages, {.doc = "Ask the system for 2 MiB pages for the run's memory."});
}

void declare(Fields& f, PrecisionSection& s) {
  f.add("compute", s.compute,
        {.doc = "`bf16`: products in bf16 with fp32 sums, master weights, moments and gradients. `fp32`: everything in "
                "fp32.",
         .choices = {"bf16", "fp32"}});
  f.add(
      "gradients", s.gradients,
      {.doc =
           "How gradients are kept between micro-batches and sent between ranks. `bf16`: half the memory and traffic, "
           "rounded once a micro-batch.",
       .choices = {"fp32", "bf16"}});
  f.add(
      "stochastic_rounding", s.stochastic_rounding,
      {.doc = "Round the bf16 weights from their fp32 masters up or down by chance, with the right mean, instead of to "
              "the nearest."});
}

void declare(Fields& f, CheckpointSection& s) {
  f.add("every", s.every,
        {.doc = "Save every so many steps. 0: only at the end and on signals.",
         .unit = "steps",
         .min = 0,
         .max = kMaxCount});
  f.add("keep_last", s.keep_last, {.doc = "Newest checkpoints to keep. 0: all.", .min = 0, .max = kMaxCount});
  f.add("keep_every", s.keep_every,
        {.doc = "Also keep every checkpoint whose step is a multiple of this, itself a multiple of `every`. 0: none.",
         .unit = "steps",
         .min = 0,
         .max = kMaxCount});
  f.add("at_end", s.at_end, {.doc = "Save after the last step."});
  f.add(
      "check_replicas", s.check_replicas,
      {.doc = "Before each save compare what several ranks hold copies of, so that no checkpoint is put together from "
              "ranks that have come apart."});
  f.add("asynchronous", s.asynchronous,
        {.doc = "Write the periodic saves while training goes on, out of a copy in host memory: 12 bytes for each "
                "parameter that a rank answers for, counted in the memory that a run is predicted to need."});
  f.add("staging_mib", s.staging_mib,
        {.doc = "Host memory of each rank for that copy. With less than a rank saves, training waits for the disk as "
                "soon as it is full. 0: room for all of it.",
         .unit = "MiB",
         .min = 0,
         .max = int64_t{1} << 40});
  f.add("node_local", s.node_local,
        {.doc = "A folder on each node's own disk, where periodic saves are written first and copied to "
                "`run.directory` from. Empty: straight to `run.directory`."});
  f.add(
      "time_margin_s", s.time_margin_s,
      {.doc =
           "In a Slurm job: save and end with code 75 while there is so much time left beside another step and a save, "
           "as long as they have taken so far.",
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
        {.doc = "Evaluate every so many steps. 0: only at the end.", .unit = "steps", .min = 0, .max = kMaxCount});
  f.add("samples", s.samples,
        {.doc = "Held-out samples per evaluation. 0: all.", .unit = "samples", .min = 0, .max = kMaxCount});
}

void declare(Fields& f, RunSpec& s) {
  f.add("run", s.run, {.doc = "The run as a whole."});
  f.add("model", s.model, {.doc = "The architecture."});
  f.add("data", s.data, {.doc = "What is learned from."});
  f.add("optimizer", s.optimizer, {.doc = "How gradients become updates."});
  f.add("schedule", s.schedule, {.doc = "The learning rate over time."});
  f.add("train", s.train, {.doc = "Length, batches and what to do when numbers go bad."});
  f.add("parallel", s.parallel, {.doc = "Division of the work among ranks."});
  f.add("memory", s.memory, {.doc = "Memory against time."});
  f.add("precision", s.precision, {.doc = "Number formats."});
  f.add("checkpoint", s.checkpoint, {.doc = "When to save and what to keep."});
  f.add("logging", s.logging, {.doc = "What is written while training."});
  f.add("eval", s.eval, {.doc = "Evaluation on held-out text."});
  f.add("watchdog", s.watchdog,
        {.doc = "A run in which no rank makes progress for longer than its phase may take, or one does not come to a "
                "communication for so long, says who stands out, prints stacks and ends with exit code 76."});
}

}  // namespace fp
