#include <catch2/catch.hpp>

#include "attention_cases.h"
#include "ops/counting.h"
#include "tensor/arena.h"

using namespace fp;
using namespace fp::test;

namespace {

// Returns a tensor whose memory must not be accessed.
Tensor somewhere(DType t, const Shape& s) { return {reinterpret_cast<void*>(uintptr_t{1} << 60), t, s}; }

double attention_flops(CountingOps& ops, const AttentionSpec& spec, int64_t B, int64_t Tq, int64_t Tk, int64_t H,
                       int64_t d) {
  ops.reset();
  const Tensor q = somewhere(DType::bf16, {B, Tq, H, d}), k = somewhere(DType::bf16, {B, Tk, H, d});
  ops.attention({q, somewhere(DType::f32, {B, H, Tq}), q, k, k, {}, {}, spec});
  return ops.counts().by_op.at("attention").flops;
}

double pairs_by_hand(const AttentionSpec& s, int64_t Tq, int64_t Tk, int64_t H) {
  double pairs = 0;
  for (int64_t h = 0; h < H; ++h)
    for (int64_t i = 0; i < Tq; ++i)
      for (int64_t j = 0; j < Tk; ++j) pairs += attends(s, h, s.q_offset + i, s.k_offset + j);
  return pairs;
}

}  // namespace

TEST_CASE("counting: a linear layer costs 2MNK in each of its three passes") {
  const auto ops = make_counting_ops();
  const int64_t M = 1024, N = 768, K = 512;
  const Tensor x = somewhere(DType::bf16, {2, 512, K}), y = somewhere(DType::bf16, {2, 512, N}),
               w = somewhere(DType::bf16, {N, K});
  ops->linear({y, x, w, somewhere(DType::bf16, {N})});
  ops->linear({y, x, w, {}});
  ops->linear_backward_input({x, y, w});
  ops->linear_backward_weight({somewhere(DType::f32, {N, K}), y, x, Write::add});
  const Counts& counts = ops->counts();
  const double each = 2.0 * M * N * K;
  CHECK(counts.gemm_flops() == 4 * each);
  CHECK(counts.flops() == 4 * each);
  REQUIRE(counts.gemm_shapes.size() == 3);
  CHECK(counts.gemm_shapes.at("linear 1024x768x512 bf16").calls == 2);
  CHECK(counts.gemm_shapes.at("linear_backward_input 1024x768x512 bf16").flops == each);
  CHECK(counts.gemm_shapes.at("linear_backward_weight 1024x768x512 bf16").flops == each);
  const double in = 2.0 * M * K, out = 2.0 * M * N, weights = 2.0 * N * K;
  CHECK(counts.by_op.at("linear").bytes == 2 * (in + out + weights) + 2.0 * N);
  CHECK(counts.by_op.at("linear_backward_weight").bytes == in + out + 2 * 4.0 * N * K);
  ops->reset();
  CHECK(ops->counts().flops() == 0.0);
  CHECK(ops->counts().by_op.empty());
}

TEST_CASE("counting: attention costs its visible pairs") {
  const auto ops = make_counting_ops();
  for (const AttentionCase& a : attention_cases(64, 130, 9)) {
    INFO(a.str());
    AttentionSpec spec = a.spec;
    spec.dropout.p = 0.0;
    const double expected = 4.0 * static_cast<double>(a.d * a.B) * pairs_by_hand(spec, a.Tq, a.Tk, a.H);
    CHECK(attention_flops(*ops, spec, a.B, a.Tq, a.Tk, a.H, a.d) == expected);
  }
}

TEST_CASE("counting: a window inside blocksparse attention, and no local blocks") {
  const auto ops = make_counting_ops();
  for (const int64_t window : {1, 5, 17, 100})
    for (const int64_t local : {0, 1, 2})
      for (const int64_t k_offset : {0, 3, 40}) {
        AttentionSpec s;
        s.window = window;
        s.block = 4, s.local_blocks = local, s.vertical_stride = 3, s.first_head = 2;
        s.q_offset = 10, s.k_offset = k_offset;
        INFO("window " << window << " local " << local << " k_offset " << k_offset);
        CHECK(attention_flops(*ops, s, 1, 61, 53, 4, 8) == 4.0 * 8 * pairs_by_hand(s, 61, 53, 4));
      }
}

TEST_CASE("counting: the blocksparse pattern of phi-3-small at 8192 tokens") {
  // Blocks kept of 8256 causal ones by heads 0..7: every kept block below the diagonal counts 64 x 64 pairs.
  const std::vector<int64_t> kept{2670, 2684, 2698, 2712, 2726, 2740, 2754, 2768};
  const auto ops = make_counting_ops();
  for (int64_t head = 0; head < 8; ++head) {
    AttentionSpec s;
    s.block = 64, s.local_blocks = 16, s.vertical_stride = 8, s.first_head = head;
    const double pairs = static_cast<double>((kept[head] - 128) * 64 * 64 + 128 * (64 * 65 / 2));
    CHECK(attention_flops(*ops, s, 1, 8192, 8192, 1, 128) == 4.0 * 128 * pairs);
  }
}

TEST_CASE("counting: a million tokens, forward and backward") {
  const auto ops = make_counting_ops();
  const int64_t T = 1 << 20, H = 32, d = 128;
  const double causal = static_cast<double>(T) * static_cast<double>(T + 1) / 2;
  CHECK(attention_flops(*ops, {}, 1, T, T, H, d) == 4.0 * d * H * causal);
  AttentionSpec sparse;
  sparse.block = 64, sparse.local_blocks = 16, sparse.vertical_stride = 8;
  CHECK(attention_flops(*ops, sparse, 1, T, T, H, d) < 0.2 * 4.0 * d * H * causal);
  ops->reset();
  const Tensor q = somewhere(DType::bf16, {1, T, H, d}), k = somewhere(DType::bf16, {1, T, 8, d});
  ops->attention_backward({q, k, k, q, q, k, k, q, somewhere(DType::f32, {1, H, T}), {}, {}, {}});
  CHECK(ops->counts().flops() == 10.0 * d * H * causal);
  CHECK(ops->counts().bytes() == 2.0 * (4.0 * T * H * d + 4.0 * T * 8 * d) + 4.0 * H * T);
}

TEST_CASE("counting touches no memory: every op on a dry arena") {
  Arena arena;
  const auto ops = make_counting_ops();
  const auto make = [&](DType t, const Shape& s) { return arena.alloc(t, s); };
  const int64_t B = 2, T = 8, M = B * T, h = 16, V = 32;
  const auto x = make(DType::bf16, {B, T, h}), y = make(DType::bf16, {B, T, h}), gain = make(DType::bf16, {h});
  const auto wide = make(DType::bf16, {B, T, 2 * h}), stats = make(DType::f32, {M, 2}), dgain = make(DType::f32, {h});
  const auto ids = make(DType::i32, {M}), table = make(DType::bf16, {V, h}), dtable = make(DType::f32, {V, h});
  const auto logits = make(DType::bf16, {M, V}), loss_stats = make(DType::f32, {M, 3}),
             samples = make(DType::i32, {B, 2});
  const auto qkv = make(DType::bf16, {M, 3 * h}), q = make(DType::bf16, {M, 2, 8}), k = make(DType::bf16, {M, 2, 8});
  const auto cos = make(DType::f32, {T, 4}), flat = make(DType::f32, {64}), norms = make(DType::f32, {1});
  const HeadLayout layout{2, 2, 8, false};
  ops->copy_in({x, nullptr});
  ops->copy_out({nullptr, x});
  ops->copy({x, y});
  ops->zero({x});
  ops->cast({dgain, gain});
  ops->permute({y, x, std::vector<int>{0, 1, 2}});
  ops->copy_columns({wide, h, x, 0, h, Write::add});
  ops->find_nonfinite({ids, logits});
  ops->bit_sums({make(DType::i32, {2}), x});
  ops->piece_sums({make(DType::f32, {4, 2}), x});
  ops->bias_backward({dgain, x, Write::add});
  ops->embedding({y, ids, table, ids, table, 1.0});
  ops->embedding_backward({dtable, y, ids, 1.0});
  ops->norm({y, x, stats, x, y, gain, gain, {}});
  ops->norm_backward_input({x, y, x, stats, gain, {}, Write::add});
  ops->norm_backward_weight({dgain, dgain, y, x, stats, {}, Write::set});
  ops->activation({x, wide, {Activation::swiglu, 0}});
  ops->activation_backward({wide, x, wide, {Activation::gegelu, 20}});
  ops->add({x, x, y});
  ops->accumulate({gain, dgain});
  ops->scaled_add({gain, x->slice(0, 1).reshaped({T * h}).slice(0, h), {}, 0.5, 0.0});
  ops->dropout({x, x, samples, 0, {0.1}});
  ops->split_qkv({q, k, k, qkv, layout, {cos, cos}, ids});
  ops->split_qkv_backward({qkv, q, k, k, layout, {cos, cos}, ids});
  ops->rope({q, q, {cos, cos}, ids});
  const auto heads = make(DType::f32, {1, T, 2, 8}), lse = make(DType::f32, {1, 2, T});
  ops->attention_merge({heads, lse, heads, lse});
  ops->softmax_stats({loss_stats, logits, ids, {0, V, {}, 1.0}});
  ops->softmax_stats_merge({loss_stats, make(DType::f32, {2, M, 3})});
  ops->cross_entropy({stats, loss_stats, ids});
  ops->cross_entropy_backward({logits, stats, ids, {0, V, {}, 1.0}, 1.0, 0.0});
  const std::vector<IndexRange> segments{{0, 64}};
  ops->sum_squares({norms, flat, segments});
  ops->adamw({flat, {flat, flat}, flat, {}, {}, {}});
  const Counts& counts = ops->counts();
  CHECK(counts.by_op.size() == 32);
  for (const auto& [name, count] : counts.by_op) {
    INFO(name);
    CHECK(count.calls == 1);
    CHECK(count.bytes > 0);
  }
  CHECK(counts.by_op.at("sum_squares").flops == 128);
  CHECK(counts.by_op.at("sum_squares").bytes == 65 * 4);
  CHECK(counts.by_op.at("add").bytes == 3 * M * h * 2);
  CHECK(counts.by_op.at("accumulate").bytes == h * (2 + 2 + 4));
  CHECK(counts.by_op.at("scaled_add").bytes == h * (2 + 2));
  CHECK(counts.by_op.at("copy_columns").flops == M * h);
  CHECK(counts.by_op.at("copy_columns").bytes == 3 * M * h * 2);
  CHECK(counts.gemm_flops() == 0.0);
}
