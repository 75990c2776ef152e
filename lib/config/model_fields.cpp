// The fields of the model section. The limits keep every count of parameters and FLOPs inside 64 bits.
#include "config/run_spec_fields.h"

namespace fp {

void declare(Fields& f, RopeSpec& s) {
  f.add("kind", s.kind,
        {.doc = "Position encoding. `none`: learned positions (family gpt, where it is the default). `standard`: "
                "rotary. `linear`: rotary with positions divided by `factor`. `llama3`: low frequencies divided by "
                "`factor` (Llama 3.1 and later). `longrope`: a factor per frequency (phi-3 128k)."});
  f.add("theta", s.theta, {.doc = "Base of the rotary frequencies theta^(-2i/head_dim).", .min = 0, .above_min = true});
  f.add("factor", s.factor, {.doc = "linear, llama3: factor by which the context is extended.", .min = 1});
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
        {.doc = "Number of blocks, a query's own and those before it, that the query attends to in full.",
         .unit = "blocks",
         .min = 1,
         .max = kMaxIds});
  f.add("vertical_stride", s.vertical_stride,
        {.doc = "Further back, a head attends to every n-th column of blocks, where n is this number.",
         .unit = "blocks",
         .min = 1,
         .max = kMaxIds});
  f.add("dense_every", s.dense_every,
        {.doc = "Layer l (from 0) is dense if (l + 1) is a multiple of this. 1 or 0: every layer is dense.",
         .min = 0,
         .max = 10000});
  f.add("homo_heads", s.homo_heads,
        {.doc = "All heads attend to the same columns. false: the columns shift by one block from head to head."});
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
        {.doc = "Width of a head. 0: hidden / heads. Some families require that heads * head_dim is hidden.",
         .min = 0,
         .max = 1024});
  f.add(
      "ffn", s.ffn,
      {.doc = "Width inside the feed-forward block (of each of the two gated halves). 0: 4 * hidden for gpt; the other "
              "families must give it.",
       .min = 0,
       .max = 1 << 22});
  f.add("vocab", s.vocab,
        {.doc = "Vocabulary size, the number of token ids. 0: that of the tokenizer of the data.",
         .min = 0,
         .max = kMaxIds});
  f.add("pad_vocab_to", s.pad_vocab_to,
        {.doc = "The rows of the embedding are padded to a multiple of this, for speed. Padding never takes part in "
                "the softmax and is not in checkpoints.",
         .min = 1,
         .max = 1 << 20});
  f.add("max_position", s.max_position,
        {.doc = "Maximum sequence length. gpt: rows of the learned position table.",
         .unit = "tokens",
         .min = 1,
         .max = kMaxIds});
}

void declare_model_dropout(Fields& f, ModelSection& s) {
  f.add("dropout_embedding", s.dropout_embedding,
        {.doc = "Fraction of the embeddings' elements set to 0 in training.", .min = 0, .max = 1, .below_max = true});
  f.add(
      "dropout_attention", s.dropout_attention,
      {.doc = "Fraction of the attention probabilities set to 0 in training.", .min = 0, .max = 1, .below_max = true});
  f.add("dropout_residual", s.dropout_residual,
        {.doc = "Fraction of the attention block's output set to 0 in training, before it is added to the residual "
                "stream. GPT-2's resid_pdrop is this and `dropout_ffn`.",
         .min = 0,
         .max = 1,
         .below_max = true});
  f.add("dropout_ffn", s.dropout_ffn,
        {.doc = "Fraction of the feed-forward block's output set to 0 in training, before it is added to the residual "
                "stream.",
         .min = 0,
         .max = 1,
         .below_max = true});
}

}  // namespace

void declare(Fields& f, ModelSection& s) {
  f.add("preset", s.preset,
        {.doc = "A predefined architecture: the name of a file in configs/models/ (`llama-3.2-1b`) or a path to one, "
                "or a folder that describes a model: a checkpoint, a run directory, a Hugging Face folder. Keys given "
                "beside it override it. A resolved spec contains the values and leaves this empty."});
  f.add("init_from", s.init_from,
        {.doc = "A checkpoint, a run directory (its newest checkpoint) or a Hugging Face folder: a fresh run starts "
                "from these weights, without optimizer state, instead of random ones. It also gives the architecture, "
                "unless `preset` does; keys given beside it override it. `vocab` may be larger than the model's, and "
                "so may `max_position` of family gpt: each new row of the embedding, LM head or positions starts as "
                "the mean of the rows that exist."});
  f.add("init_changes", s.init_changes,
        {.doc = "Allow settings that change what the weights of `init_from` compute (rope, sliding_window, norm_eps, "
                "...) to differ from that model's own, for example to extend its context, and the tokenizer of the "
                "data to give ids other texts. false: a difference is an error. Dropout and a longer max_position "
                "(except for longrope) need no permission."});
  f.add("name", s.name, {.doc = "Names the model in logs and reports. Empty: the preset's name, or the family."});
  f.add("family", s.family, {.doc = describe_families()});
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
  f.add(
      "sliding_window", s.sliding_window,
      {.doc = "Number of keys that a query attends to, its own included, in families with a sliding window. 0: its own "
              "and all before it.",
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

}  // namespace fp
