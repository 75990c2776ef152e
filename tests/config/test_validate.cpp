// Checks that involve several keys: each case violates one rule and must be refused for that rule, at its place.
#include <catch2/catch.hpp>

#include "config/load.h"
#include "expect.h"

namespace fp {

TEST_CASE("keys that contradict each other are refused", "[config]") {
  struct Case {
    const char* text;
    const char* says;
  };
  const auto [text, part] = GENERATE(values<Case>({
      {"model: {heads: 7}", "1:16: model.heads = 7 does not divide model.hidden = 768"},
      {"model: {family: llama, ffn: 64, kv_heads: 5}",
       "1:43: model.kv_heads = 5 does not divide model.heads = 12; legal: 1, 2, 3, 4, 6 or 12"},
      {"model: {kv_heads: 4}", "1:19: model.kv_heads = 4: family gpt has as many as heads, 12"},
      {"model: {head_dim: 32}",
       "1:19: model.heads * model.head_dim = 12 * 32 must be model.hidden = 768 in family gpt"},
      {"model: {family: phi3, ffn: 64, head_dim: 32}", "must be model.hidden = 768 in family phi3"},
      {"model: {family: llama, ffn: 64, head_dim: 33}", "1:43: model.head_dim = 33 must be even"},
      {"model: {family: llama}", "1:17: model.ffn must be given for family llama"},
      {"model: {rope: {kind: standard}}", "1:22: model.rope.kind = standard is not for family gpt"},
      {"model: {rope: {theta: 5e5}}", "model.rope.theta has no effect with model.rope.kind none"},
      {"model: {family: llama, ffn: 64, rope: {kind: longrope}}",
       "model.rope.kind = longrope is not for family llama; legal: standard, linear, llama3"},
      {"model: {family: llama, ffn: 64, rope: {kind: none}}", "model.rope.kind = none is not for family llama"},
      {"model: {family: phi3, ffn: 64, rope: {kind: llama3}}",
       "model.rope.kind = llama3 is not for family phi3; legal: standard, longrope"},
      {"model: {family: llama, ffn: 64, rope: {factor: 2}}",
       "1:48: model.rope.factor has no effect with model.rope.kind standard; remove it"},
      {"model: {family: llama, ffn: 64, rope: {kind: linear, low_freq_factor: 2}}",
       "model.rope.low_freq_factor has no effect"},
      {"model: {family: llama, ffn: 64, rope: {kind: llama3, factor: 8}}",
       "model.rope.original_max_position must be given"},
      {"model: {family: llama, ffn: 64, rope: {kind: llama3, original_max_position: 64, low_freq_factor: 4}}",
       "model.rope.low_freq_factor = 4 must be under high_freq_factor = 4"},
      {"model: {family: llama, ffn: 64, rope: {long_factor: [1]}}", "model.rope.long_factor has no effect"},
      {"model: {family: llama, ffn: 64, rope: {attention_factor: 1}}", "model.rope.attention_factor has no effect"},
      {"model: {family: llama, ffn: 64, rope: {position_scale: 2}}",
       "model.rope.position_scale has no effect in family llama"},
      {"model: {family: phi3, ffn: 64, rope: {kind: longrope, original_max_position: 512, long_factor: [1, 2]}}",
       "1:96: model.rope.long_factor has 2 values; longrope needs head_dim / 2 = 32"},
      {"model: {preset: phi-3-medium-128k}", "model.rope.short_factor has 0 values; longrope needs head_dim / 2 = 64"},
      {"model: {preset: phi-3-mini-128k, max_position: 2048}",
       "model.rope.original_max_position = 4096 must be at most model.max_position = 2048"},
      {"model: {sliding_window: 128}", "1:25: model.sliding_window has no effect in family gpt"},
      {"model: {family: llama, ffn: 64, sliding_window: 128}", "model.sliding_window has no effect in family llama"},
      {"model: {family: qwen2, ffn: 64, sliding_window: 128}", "model.sliding_window has no effect in family qwen2"},
      {"model: {family: qwen2, ffn: 64, head_dim: 32}", "must be model.hidden = 768 in family qwen2"},
      {"model: {family: qwen3, ffn: 64, rope: {kind: linear}}",
       "model.rope.kind = linear is not for family qwen3; legal: standard"},
      {"model: {blocksparse: {block: 32}}", "1:30: model.blocksparse.block has no effect in family gpt"},
      {"model: {family: phi3, ffn: 64, mup: {width: 8}}", "model.mup.width has no effect in family phi3"},
      {"model: {gegelu_limit: 10}", "model.gegelu_limit has no effect in family gpt"},
      {"model: {vocab: 10, masked_ids: [3, 10]}", "1:32: model.masked_ids names 10; model.vocab = 10 has ids 0 to 9"},
      {"model: {masked_ids: [3, 4, 3]}", "model.masked_ids names 3 twice"},
      {"model: {vocab: 2, masked_ids: [0, 1]}", "model.masked_ids leaves no token to predict"},
      {"data: {seq_len: 2048}", "1:17: data.seq_len = 2048 is over model.max_position = 1024"},
      {"data: {reset_positions: true}", "1:25: data.reset_positions needs data.mask_documents: true"},
      {"data: {train: [{path: a}, {path: a}]}", "1:34: data.train[1].path = 'a' is also data.train[0].path"},
      {"data: {train: [{path: ''}]}", "data.train[0].path must name a dataset"},
      {"run: {name: ''}", "1:13: run.name must not be empty"},
      {"schedule: {warmup_steps: 2000}", "1:26: schedule.warmup_steps = 2000 is over train.steps = 1000"},
      {"schedule: {kind: wsd, warmup_steps: 600, decay_steps: 500}",
       "1:55: schedule.warmup_steps + decay_steps = 600 + 500 is over train.steps = 1000"},
      {"schedule: {decay_shape: linear}", "schedule.decay_shape = linear has no effect with schedule.kind cosine"},
      {"schedule: {kind: constant, decay_steps: 5}", "schedule.decay_steps has no effect with schedule.kind constant"},
      {"schedule: {warmup_steps: 50, decay_steps: 10}", "schedule.decay_steps = 10 is the step where the decay ends"},
      {"optimizer: {kind: lion, eps: 1.0e-7}",
       "1:30: optimizer.eps has no effect with optimizer.kind lion; it is for adamw and muon"},
      {"optimizer: {muon: {momentum: 0.9}}", "optimizer.muon has no effect with optimizer.kind adamw; remove it"},
      {"optimizer: {kind: muon, muon: {momentum: 1.0}}", "1:42: optimizer.muon.momentum: 1.0 is out of range"},
      {"train: {global_batch: 12}", "1:23: train.global_batch = 12 must be a multiple of train.micro_batch = 8"},
      {"train: {ramp_start_batch: 4}", "1:27: a batch-size ramp needs"},
      {"train: {micro_batch: 2, ramp_start_batch: 8, ramp_increment: 2, ramp_samples: 9}",
       "train.ramp_start_batch = 8 must be under train.global_batch = 8"},
      {"train: {micro_batch: 2, ramp_start_batch: 3, ramp_increment: 2, ramp_samples: 9}",
       "train.ramp_start_batch = 3 must be a multiple"},
      {"train: {micro_batch: 2, ramp_start_batch: 2, ramp_increment: 3, ramp_samples: 9}",
       "train.ramp_increment = 3 must be a multiple"},
      {"train: {micro_batch: 2, ramp_start_batch: 2, ramp_increment: 4, ramp_samples: 9}",
       "train.ramp_increment = 4 must divide global_batch - ramp_start_batch = 6"},
      {"checkpoint: {keep_every: 1500}",
       "1:26: checkpoint.keep_every = 1500 must be a multiple of checkpoint.every = 1000"},
      {"checkpoint: {every: 0, keep_every: 10}", "checkpoint.keep_every = 10 must be a multiple"},
      {"parallel: {pipeline: 2}", "parallel.pipeline must be a map of keys"},
      {"parallel: {pipeline: {schedule: 1f2b}}", "'1f2b' is not known (did you mean '1f1b'?)"},
      {"parallel: {pipeline: {layers: some}}", "legal: `auto` or list of integers"},
      {"parallel: {pipeline: {recompute: [none, all]}}", "parallel.pipeline.recompute[1]: 'all' is not known"},
      {"parallel: {pipeline: {schedule: zb-v}}",
       "parallel.pipeline.schedule has no effect with parallel.pipeline.ranks = 1"},
      {"parallel: {pipeline: {chunks: 2}}",
       "1:31: parallel.pipeline.chunks has no effect with parallel.pipeline.ranks"},
      {"parallel: {pipeline: {w_pass: true}}",
       "parallel.pipeline.w_pass has no effect with parallel.pipeline.ranks = 1"},
      {"parallel: {pipeline: {resident_stages: 1}}",
       "parallel.pipeline.resident_stages has no effect with parallel.pipeline.ranks = 1"},
      {"parallel: {pipeline: {ranks: 2, resident_stages: 1}}",
       "parallel.pipeline.resident_stages has no effect with parallel.zero_stage = 0"},
      {"parallel: {pipeline: {ranks: 2, memory_cap: 3}}",
       "parallel.pipeline.memory_cap has no effect with parallel.pipeline.w_pass false"},
      {"parallel: {pipeline: {ranks: 2, window: 3}}",
       "parallel.pipeline.window has no effect with parallel.pipeline.schedule 1f1b"},
      {"parallel: {pipeline: {ranks: 2, schedule: zb-v, schedule_file: a.csv}}",
       "parallel.pipeline.schedule has no effect with parallel.pipeline.schedule_file"},
      {"parallel: {pipeline: {ranks: 2, schedule_file: a.csv, chunks: 2}}",
       "parallel.pipeline.chunks has no effect with parallel.pipeline.schedule_file"},
      {"parallel: {zero_stage: 4}", "parallel.zero_stage: 4 is out of range; legal: integer from 0 to 3"},
      {"parallel: {megatron_sp: true}", "has no effect with parallel.tensor = 1"},
      {"memory: {offload: {activations: host}}", "memory.recompute must be full, not none"},
      {"memory: {recompute: selective, offload: {activations: host}}", "memory.recompute must be full, not selective"},
      {"memory: {offload: {device_share: 0.5}}",
       "1:34: memory.offload.device_share = 0.5 divides the updates of state in host memory: memory.offload.optimizer "
       "must be host, not none, or the share 1"},
      {"memory: {offload: {optimizer: host, device_share: 1.5}}",
       "memory.offload.device_share: 1.5 is out of range; legal: number from 0 to 1"},
      {"memory: {offload: {optimizer: host, early_gradients: true}}",
       "memory.offload.early_gradients has no effect with memory.offload.device_share = 1"},
      {"memory: {offload: {subgroup: 2000}}",
       "memory.offload.subgroup has no effect with memory.offload.optimizer none"},
      {"memory: {offload: {optimizer: host, subgroup: 10}}", "memory.offload.subgroup: 10 is out of range"},
      {"{optimizer: {kind: muon}, memory: {offload: {optimizer: host, device_share: 0}}}",
       "memory.offload.device_share = 0 must be 1 with optimizer.kind muon, which orthogonalizes whole matrices"},
      {"memory: {offload: {weights: host}}", "memory.offload.weights = host needs memory.offload.optimizer host, not none"},
      {"{memory: {offload: {optimizer: host, weights: host}}, parallel: {pipeline: {ranks: 2}}}",
       "memory.offload.weights = host needs parallel.pipeline.ranks = 1 and no schedule_file, not 2 ranks"},
      {"{memory: {offload: {optimizer: host, weights: host}}, optimizer: {kind: muon}}",
       "memory.offload.weights = host needs an optimizer.kind that updates each element by itself, adamw or lion, not "
       "muon"},
      {"memory: {offload: {optimizer: host, weights: host, device_share: 0.5, early_gradients: true}}",
       "memory.offload.early_gradients has no effect with memory.offload.weights = host"},
      {"{memory: {offload: {optimizer: host, weights: host}}, eval: {sample_prompt: a}}",
       "eval.sample_prompt needs the weights on the device, not memory.offload.weights = host"},
      {"{memory: {offload: {optimizer: host, weights: host}}, parallel: {pipeline: {schedule: gpipe}}}",
       "parallel.pipeline.schedule has no effect with memory.offload.weights = host, whose schedule is bfs"},
      {"parallel: {pipeline: {schedule: bfs, resident_stages: 3}}",
       "parallel.pipeline.resident_stages has no effect with parallel.zero_stage = 0"},
      {"parallel: {pipeline: {schedule: bfs, w_pass: true}}",
       "parallel.pipeline.w_pass has no effect with parallel.pipeline.schedule bfs"},
      {"parallel: {data: 3}",
       "train.global_batch = 8 must be a multiple of train.micro_batch x parallel.data = 8 x 3 = 24"},
      {"precision: {compute: fp32, gradients: bf16}", "precision.gradients = bf16 needs precision.compute bf16"},
      {"{precision: {stochastic_rounding: true}, parallel: {zero_stage: 1}}", "parallel.zero_stage = 0, not 1 and 1"},
  }));
  CAPTURE(text);
  CHECK_THAT(error_of(text), says(part));
}

TEST_CASE("combinations of keys that are legal are accepted", "[config]") {
  const char* text = GENERATE(
      "model: {family: llama, ffn: 64, heads: 24, kv_heads: 8, head_dim: 128, hidden: 512}",
      "model: {rope: {kind: none}}", "model: {family: phi3, ffn: 64, sliding_window: 1}",
      "model: {family: mistral, ffn: 64, sliding_window: 1, head_dim: 32}",
      "model: {family: qwen3, ffn: 64, head_dim: 32, kv_heads: 4}",
      "model: {family: phi3small, ffn: 64, rope: {position_scale: 2}, mup: {width: 8}, blocksparse: {dense_every: 0}}",
      "memory: {offload: {optimizer: host, device_share: 0.5, early_gradients: true, subgroup: 4096}}",
      "{optimizer: {kind: lion}, memory: {offload: {optimizer: host, device_share: 0}}}",
      "{memory: {offload: {optimizer: host, weights: host}}, parallel: {pipeline: {resident_stages: 3}}}",
      "parallel: {pipeline: {schedule: bfs}}", "parallel: {zero_stage: 3, pipeline: {schedule: bfs, chunks: 4}}",
      "{optimizer: {kind: muon}, memory: {offload: {optimizer: host}}}", "model: {masked_ids: [70000]}",
      "data: {mask_documents: true, reset_positions: true}",
      "schedule: {kind: wsd, warmup_steps: 500, decay_steps: 500, decay_shape: cosine}",
      "schedule: {decay_steps: 5000}", "schedule: {warmup_steps: 1000}",
      "optimizer: {kind: muon, eps: 1.0e-7, muon: {scale: spectral, adamw_lr: 0.5}}",
      "train: {micro_batch: 2, ramp_start_batch: 2, ramp_increment: 2, ramp_samples: 9}",
      "checkpoint: {every: 10, keep_every: 100}");
  CAPTURE(text);
  CHECK(error_of(text) == "");
}

TEST_CASE("an invalid key is reported once and skips the checks that use it", "[config]") {
  CHECK_THAT(error_of("model: {heads: x, hidden: 100}"), !says("problems"));
  CHECK_THAT(error_of("model: 5\ndata: {seq_len: 9000}"), !says("problems"));
  CHECK_THAT(error_of("model: {preset: nope}\ndata: {seq_len: 9000}"), !says("problems"));
}

}  // namespace fp
