#include "config/run_spec_fields.h"

namespace fp {

// The limits keep every count of parameters, tokens and FLOPs inside 64 bits.
constexpr double kMaxCount = 1e15;      // steps, samples
constexpr double kMaxIds = 2147483647;  // token ids and positions are 32-bit

std::span<const std::string_view> names_of(Family) {
  static constexpr std::string_view kNames[] = {"gpt", "llama", "phi3", "phi3small"};
  return kNames;
}

std::span<const std::string_view> names_of(RopeKind) {
  static constexpr std::string_view kNames[] = {"none", "standard", "linear", "llama3", "longrope"};
  return kNames;
}

void declare(Fields& f, RunSection& s) {
  f.add("name", s.name, {.doc = "Names the run in logs and reports, and its folder when `directory` is empty."});
  f.add("directory", s.directory,
        {.doc = "Where the run keeps its resolved spec, metrics, report and checkpoints. Empty: `runs/<name>`."});
  f.add("seed", s.seed,
        {.doc =
             "Source of every random number: initial weights, order of the data, dropout. The same seed gives the same "
             "run, whatever the number of threads or ranks."});
  f.add("device", s.device,
        {.doc = "`cpu`: oneDNN and OpenMP, the fast path. `ref`: plain loops, the oracle for tests; very slow.",
         .choices = {"cpu", "ref"}});
  f.add("threads", s.threads,
        {.doc = "Threads that compute. 0: one per core this process may use.", .min = 0, .max = 4096});
}

void declare(Fields& f, RopeSpec& s) {
  f.add(
      "kind", s.kind,
      {.doc = "Position encoding. `none`: learned positions (family gpt, and set by itself there). `standard`: rotary. "
              "`linear`: rotary with positions divided by `factor`. `llama3`: low frequencies divided by `factor` "
              "(Llama 3.1 and later). `longrope`: a factor per frequency (phi-3 128k)."});
  f.add("theta", s.theta, {.doc = "Base of the rotary frequencies theta^(-2i/head_dim).", .min = 0, .above_min = true});
  f.add("factor", s.factor, {.doc = "linear, llama3: how many times longer the context becomes.", .min = 1});
  f.add("low_freq_factor", s.low_freq_factor,
        {.doc = "llama3: wavelengths over original_max_position / low_freq_factor are divided by `factor`.",
         .min = 0,
         .above_min = true});
  f.add(
      "high_freq_factor", s.high_freq_factor,
      {.doc = "llama3: wavelengths under original_max_position / high_freq_factor are kept; between the two limits the "
              "frequencies are blended. Must be over `low_freq_factor`.",
       .min = 0,
       .above_min = true});
  f.add("original_max_position", s.original_max_position,
        {.doc =
             "llama3, longrope: context length before it was extended. longrope uses `short_factor` up to this length.",
         .unit = "tokens",
         .min = 0,
         .max = kMaxIds});
  f.add("position_scale", s.position_scale,
        {.doc = "phi3small: positions are multiplied by this before rotation.", .min = 0, .above_min = true});
  f.add("short_factor", s.short_factor,
        {.doc = "longrope: head_dim / 2 divisors of the frequencies, for sequences up to `original_max_position`.",
         .min = 0,
         .above_min = true});
  f.add("long_factor", s.long_factor,
        {.doc = "longrope: head_dim / 2 divisors of the frequencies, for longer sequences.",
         .min = 0,
         .above_min = true});
  f.add(
      "attention_factor", s.attention_factor,
      {.doc =
           "longrope: multiplies cos and sin. null: sqrt(1 + ln(s) / ln(original_max_position)) with s = max_position "
           "/ original_max_position, or 1 where s <= 1.",
       .min = 0,
       .above_min = true});
  f.add(
      "scale_short", s.scale_short,
      {.doc =
           "longrope: the attention factor also applies where `short_factor` is used, as for phi-3 mini and medium."});
}

void declare(Fields& f, BlocksparseSpec& s) {
  f.add("block", s.block, {.doc = "Side of an attention block.", .unit = "tokens", .min = 1, .max = 65536});
  f.add("local_blocks", s.local_blocks,
        {.doc = "Blocks before a query's own, that one included, which it sees in full.",
         .unit = "blocks",
         .min = 1,
         .max = kMaxIds});
  f.add("vertical_stride", s.vertical_stride,
        {.doc = "Further back a head sees every n-th column of blocks.", .unit = "blocks", .min = 1, .max = kMaxIds});
  f.add("dense_every", s.dense_every,
        {.doc = "Layer l (from 0) is dense when (l + 1) is a multiple of this. 1 or 0: every layer is dense.",
         .min = 0,
         .max = 10000});
  f.add("homo_heads", s.homo_heads,
        {.doc = "All heads see the same columns. false: the columns shift by one block from head to head."});
}

void declare(Fields& f, MupSpec& s) {
  f.add("embedding", s.embedding, {.doc = "Multiplies the embeddings. 1: off.", .min = 0, .above_min = true});
  f.add("width", s.width, {.doc = "Divides the logits. 1: off.", .min = 0, .above_min = true});
  f.add("attention", s.attention,
        {.doc = "Scores are multiplied by attention / head_dim. 0: the usual 1 / sqrt(head_dim).", .min = 0});
}

namespace {

void declare_model_size(Fields& f, ModelSection& s) {
  f.add("layers", s.layers, {.doc = "Transformer blocks.", .min = 1, .max = 10000});
  f.add("hidden", s.hidden, {.doc = "Width of the residual stream.", .min = 1, .max = 1 << 20});
  f.add("heads", s.heads, {.doc = "Query heads.", .min = 1, .max = 4096});
  f.add("kv_heads", s.kv_heads,
        {.doc = "Key and value heads, each shared by heads / kv_heads query heads. 0: same as `heads`. gpt: same as "
                "`heads`.",
         .min = 0,
         .max = 4096});
  f.add("head_dim", s.head_dim,
        {.doc = "Width of a head. 0: hidden / heads. Only llama may have heads * head_dim other than hidden.",
         .min = 0,
         .max = 1024});
  f.add(
      "ffn", s.ffn,
      {.doc = "Width inside the feed-forward block (of each of the two gated halves). 0: 4 * hidden for gpt; the other "
              "families must give it.",
       .min = 0,
       .max = 1 << 22});
  f.add("vocab", s.vocab, {.doc = "Token ids. 0: as many as the tokenizer of the data has.", .min = 0, .max = kMaxIds});
  f.add(
      "pad_vocab_to", s.pad_vocab_to,
      {.doc =
           "The embedding's rows are padded up to a multiple of this, for speed. Padding never reaches the softmax and "
           "is not in checkpoints.",
       .min = 1,
       .max = 1 << 20});
  f.add("max_position", s.max_position,
        {.doc = "Longest sequence. gpt: rows of the learned position table.",
         .unit = "tokens",
         .min = 1,
         .max = kMaxIds});
}

void declare_model_dropout(Fields& f, ModelSection& s) {
  f.add("dropout_embedding", s.dropout_embedding,
        {.doc = "Share of the embeddings' elements set to 0 in training.", .min = 0, .max = 1, .below_max = true});
  f.add("dropout_attention", s.dropout_attention,
        {.doc = "Share of the attention probabilities set to 0 in training.", .min = 0, .max = 1, .below_max = true});
  f.add("dropout_residual", s.dropout_residual,
        {.doc =
             "Share of the attention block's output set to 0 in training, before it joins the residual stream. GPT-2's "
             "resid_pdrop is this and `dropout_ffn`.",
         .min = 0,
         .max = 1,
         .below_max = true});
  f.add("dropout_ffn", s.dropout_ffn,
        {.doc = "Share of the feed-forward block's output set to 0 in training, before it joins the residual stream.",
         .min = 0,
         .max = 1,
         .below_max = true});
}

}  // namespace

void declare(Fields& f, ModelSection& s) {
  f.add(
      "preset", s.preset,
      {.doc =
           "A known architecture: the name of a file in configs/models/ (`llama-3.2-1b`) or a path to one. Keys given "
           "beside it override it. A resolved spec spells the values out and leaves this empty."});
  f.add("name", s.name, {.doc = "Names the model in logs and reports. Empty: the preset's name, or the family."});
  f.add(
      "family", s.family,
      {.doc = "`gpt`: GPT-2 and GPT-3 (LayerNorm, biases, learned positions, GELU). `llama`: RMSNorm, rotary, SwiGLU. "
              "`phi3`: phi-3 mini and medium (as llama, with sliding window and longrope). `phi3small`: LayerNorm, "
              "biases, "
              "blocksparse attention, gegelu, muP multipliers."});
  declare_model_size(f, s);
  f.add(
      "tied_embeddings", s.tied_embeddings,
      {.doc =
           "The output projection is the embedding matrix. Llama 2, Llama 3 8B and up, phi-3 mini and medium: false."});
  f.add("norm_eps", s.norm_eps,
        {.doc = "Added to the variance (LayerNorm) or mean square (RMSNorm).", .min = 0, .above_min = true});
  f.add("init_std", s.init_std, {.doc = "Standard deviation of the initial weights.", .min = 0, .above_min = true});
  f.add("scaled_residual_init", s.scaled_residual_init,
        {.doc = "Projections into the residual stream start smaller: init_std / sqrt(2 * layers). phi3small: only the "
                "feed-forward one."});
  f.add("sliding_window", s.sliding_window,
        {.doc = "phi3: keys a query sees, itself included. 0: all before it.",
         .unit = "tokens",
         .min = 0,
         .max = kMaxIds});
  f.add("gegelu_limit", s.gegelu_limit,
        {.doc = "phi3small: inputs of gegelu are clamped to this.", .min = 0, .above_min = true});
  f.add("masked_ids", s.masked_ids,
        {.doc = "Token ids that are never predicted: their logits are minus infinity.", .min = 0, .max = kMaxIds});
  f.add("rope", s.rope, {.doc = "Rotary position encoding."});
  f.add("blocksparse", s.blocksparse, {.doc = "phi3small: attention of the layers that are not dense."});
  f.add("mup", s.mup, {.doc = "phi3small: muP multipliers."});
  declare_model_dropout(f, s);
}

void declare(Fields& f, DatasetSpec& s) {
  f.add("path", s.path,
        {.doc = "Folder made by `fptrain data prepare`; relative paths start at the working directory."});
  f.add("weight", s.weight,
        {.doc = "Share of the samples drawn from this folder, relative to the other weights.",
         .min = 0,
         .above_min = true});
}

void declare(Fields& f, DataSection& s) {
  f.add("train", s.train, {.doc = "One or more prepared folders, mixed by weight. Needed to train."});
  f.add("validation", s.validation,
        {.doc = "Prepared folder to evaluate on. Empty: the held-out split of the training folders."});
  f.add("seq_len", s.seq_len, {.doc = "Tokens per sample.", .unit = "tokens", .min = 1, .max = kMaxIds});
  f.add("mask_documents", s.mask_documents,
        {.doc = "Tokens attend only within their own document. false: a sample's documents see those before them."});
  f.add("reset_positions", s.reset_positions,
        {.doc = "Positions start again at 0 in each document of a sample. Needs `mask_documents`."});
  f.add("shuffle", s.shuffle,
        {.doc = "Samples come in an order drawn from the seed, anew each epoch. false: in the order of the folders."});
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

void declare(Fields& f, TrainSection& s) {
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
}

void declare(Fields& f, ParallelSection& s) {
  const FieldInfo one{.doc = "", .min = 1, .max = 1};
  const auto degree = [&](std::string_view doc) {
    FieldInfo info = one;
    info.doc = doc;
    return info;
  };
  f.add("tensor", s.tensor, degree("Ranks that share each layer. This version runs on one rank."));
  f.add("pipeline", s.pipeline, degree("Ranks that hold consecutive layers. This version runs on one rank."));
  f.add("sequence", s.sequence, degree("Ranks that share each sequence. This version runs on one rank."));
  f.add("data", s.data, degree("Ranks that share each batch. This version runs on one rank."));
  f.add("zero_stage", s.zero_stage,
        {.doc = "What data-parallel ranks divide among them. 0: nothing, all there is to do on one rank.",
         .min = 0,
         .max = 0});
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
}

}  // namespace fp
