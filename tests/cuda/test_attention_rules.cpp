#include <catch2/catch.hpp>

#include "cuda/rules/attention_rules.h"

using namespace fp;
using namespace fp::cuda;
using Catch::Matchers::Contains;

namespace {

constexpr AttentionShape kShape{4, 256, 256, 8, 2, 64};
constexpr int64_t kVersion = cudnn_version(9, 19, 0);

// Returns the refusal of both passes; refusals of the backward pass alone have a test of their own.
std::string refusal(const AttentionShape& shape, const AttentionSpec& spec = {}, DType dtype = DType::bf16,
                    bool documents = false, int64_t version = kVersion, int major = 9) {
  const std::string text = cudnn_refusal(AttentionPass::forward, version, major, shape, spec, dtype, documents);
  CHECK(cudnn_refusal(AttentionPass::backward, version, major, shape, spec, dtype, documents) == text);
  return text;
}

template <class Change>
AttentionShape with(Change change) {
  AttentionShape s = kShape;
  change(s);
  return s;
}
template <class Change>
AttentionSpec spec_with(Change change) {
  AttentionSpec s;
  change(s);
  return s;
}

}  // namespace

TEST_CASE("cuDNN supports causal attention, windows, documents and grouped heads") {
  CHECK(refusal(kShape).empty());
  CHECK(refusal(kShape, spec_with([](auto& s) { s.window = 100; }), DType::bf16, true).empty());
  CHECK(refusal(kShape, spec_with([](auto& s) { s.q_offset = s.k_offset = 512; })).empty());
  for (const int64_t d : {64, 80, 96, 128, 256}) CHECK(refusal(with([d](auto& s) { s.head_dim = d; })).empty());
}

TEST_CASE("calls that cuDNN does not support are refused with a reason") {
  CHECK_THAT(refusal(kShape, {}, DType::f32), Contains("fp32"));
  CHECK_THAT(refusal(kShape, spec_with([](auto& s) { s.dropout.p = 0.1; })), Contains("attention dropout"));
  CHECK_THAT(refusal(kShape, spec_with([](auto& s) { s.block = 64; })), Contains("blocksparse mask"));
  CHECK_THAT(refusal(kShape, spec_with([](auto& s) { s.q_offset = 64; })), Contains("offsets"));
  CHECK_THAT(refusal(with([](auto& s) { s.keys = 512; })), Contains("offsets"));
  CHECK_THAT(refusal(kShape, spec_with([](auto& s) { s.q_offset = s.k_offset = 64; }), DType::bf16, true),
             Contains("documents"));
  CHECK_THAT(refusal(with([](auto& s) { s.head_dim = 84; })), Contains("84") && Contains("multiple of 8"));
  CHECK_THAT(refusal(with([](auto& s) { s.head_dim = 264; })), Contains("256"));
  CHECK_THAT(refusal(with([](auto& s) { s.head_dim = 136; }), {}, DType::bf16, false, kVersion, 8), Contains("128"));
  CHECK_THAT(refusal(with([](auto& s) { s.queries = s.keys = 1; })), Contains("one token"));
  CHECK_THAT(refusal(kShape, {}, DType::bf16, false, kVersion, 7), Contains("8.0"));
}

TEST_CASE("the forward pass of few queries is left to flash attention where that runs") {
  const auto of = [](AttentionPass pass, int64_t queries, int64_t head_dim, int major) {
    const AttentionShape shape = with([&](auto& s) { s.queries = s.keys = queries, s.head_dim = head_dim; });
    return cudnn_refusal(pass, kVersion, major, shape, {}, DType::bf16, false);
  };
  for (const int64_t head_dim : {64, 128}) {
    CHECK_THAT(of(AttentionPass::forward, 2, head_dim, 9), Contains("2 queries, fewer than 128"));
    CHECK_THAT(of(AttentionPass::forward, 127, head_dim, 10), Contains("127 queries"));
    CHECK(of(AttentionPass::forward, 128, head_dim, 9).empty());
    CHECK(of(AttentionPass::backward, 120, head_dim, 9).empty());
  }
  // An L40S has too little shared memory for fptrain's own kernels with heads of 128.
  CHECK_THAT(of(AttentionPass::forward, 100, 96, 8), Contains("100 queries"));
  CHECK(of(AttentionPass::forward, 100, 128, 8).empty());
}

TEST_CASE("cuDNN versions with known bugs are refused") {
  const auto of = [](int64_t version, const AttentionShape& s = kShape, int major = 9) {
    return refusal(s, {}, DType::bf16, false, version, major);
  };
  const AttentionShape odd = with([](auto& s) { s.queries = s.keys = 200; });
  CHECK_THAT(of(cudnn_version(9, 10, 1)), Contains("9.10.1"));
  CHECK(of(cudnn_version(9, 10, 2)).empty());
  CHECK_THAT(of(cudnn_version(9, 15, 0), odd), Contains("200"));
  CHECK(of(cudnn_version(9, 15, 1), odd).empty());
  CHECK(of(kVersion, kShape, 10).empty());
}

TEST_CASE("cuDNN runs the forward pass when only its backward pass is refused") {
  const auto of = [](AttentionPass pass, const AttentionShape& shape, int64_t version, int major) {
    return cudnn_refusal(pass, version, major, shape, {}, DType::bf16, false);
  };
  // Llama 3 8B at 32,768 tokens would keep 8 GiB of score gradients for the four heads of a head of keys.
  const AttentionShape llama{1, 32768, 32768, 32, 8, 128};
  CHECK(of(AttentionPass::forward, llama, kVersion, 9).empty());
  CHECK_THAT(of(AttentionPass::backward, llama, kVersion, 9),
             Contains("8192 MiB of score gradients") && Contains("of at most 2048; chunks of up to 16384 tokens fit"));
  for (const int64_t tokens : {16384, 16512}) {
    const AttentionShape chunk{1, tokens, tokens, 32, 8, 128};
    CHECK(of(AttentionPass::backward, chunk, kVersion, 9).empty() == (tokens <= 16384));
  }
  CHECK(longest_chunk(kScoreGradientLimit, {1, 65536, 65536, 25, 25, 64}) == 32768);
  // No deterministic backward pass for a B200 before cuDNN 9.18.
  const int64_t early = cudnn_version(9, 17, 1);
  CHECK(of(AttentionPass::forward, kShape, early, 10).empty());
  CHECK_THAT(of(AttentionPass::backward, kShape, early, 10), Contains("deterministic"));
}

TEST_CASE("a call in tiles has as few as the limit allows, of about the same size") {
  const auto tile = [](int64_t queries, int64_t keys) {
    return tile_tokens(kScoreGradientLimit, {1, queries, keys, 32, 8, 128});
  };
  CHECK(tile(16384, 16384) == 16384);
  CHECK(tile(16385, 16385) == 8320);  // two of 8,193 tokens, in multiples of 128
  CHECK(tile(32768, 32768) == 16384);
  CHECK(tile(1024, 40000) == 13440);                        // three of 13,334
  CHECK(tile_tokens(1, {1, 300, 300, 32, 8, 128}) == 128);  // less than any tile needs
}

TEST_CASE("tiles of a long sequence are calls that cuDNN supports") {
  const AttentionShape tile{1, 16384, 16384, 32, 8, 128};
  for (const int64_t q_offset : {0, 16384, 32768})
    for (int64_t k_offset = 0; k_offset <= q_offset; k_offset += 16384) {
      const AttentionSpec spec = spec_with([&](auto& s) { s.q_offset = q_offset, s.k_offset = k_offset; });
      CAPTURE(q_offset, k_offset);
      CHECK(cudnn_refusal(AttentionPass::backward, kVersion, 9, tile, spec, DType::bf16, false).empty());
    }
}

TEST_CASE("cuDNN runs chunks of keys that every query sees, and no others with offsets") {
  const AttentionShape shape = with([](auto& s) { s.queries = 256, s.keys = 128; });
  for (const int64_t q_offset : {0, 126, 127, 128, 256, 512})
    for (const int64_t window : {0, 255, 382, 383, 640}) {
      const AttentionSpec spec =
          spec_with([&](auto& s) { s.q_offset = q_offset + 64, s.k_offset = 64, s.window = window; });
      bool all = true;
      for (int64_t q = 0; q < shape.queries; ++q)
        for (int64_t k = 0; k < shape.keys; ++k) all = all && attends(spec, 0, spec.q_offset + q, spec.k_offset + k);
      CAPTURE(q_offset, window);
      CHECK(sees_all_keys(shape, spec) == all);
      CHECK(refusal(shape, spec).empty() == all);
    }
  CHECK(!sees_all_keys(shape, spec_with([](auto& s) { s.q_offset = 512, s.block = 64, s.vertical_stride = 2; })));
}

TEST_CASE("the band bounds select the keys that attends() allows") {
  const AttentionShape shape = with([](auto& s) { s.queries = s.keys = 20; });
  for (const int64_t window : {0, 1, 3, 19, 20, 50}) {
    const AttentionSpec spec = spec_with([window](auto& s) { s.window = window; });
    const BandBounds band = band_bounds(shape, spec);
    for (int64_t row = 0; row < 20; ++row)
      for (int64_t column = 0; column < 20; ++column) {
        const bool seen = column <= row && (!band.has_left || column + band.left > row);
        CHECK(seen == attends(spec, 0, row, column));
      }
  }
}

TEST_CASE("the backward pass processes as many sequences or heads at a time as fit") {
  const size_t one = score_gradient_bytes(kShape);
  CHECK(one == size_t{8} * 256 * 256 * 2);
  CHECK(score_gradient_bytes(with([](auto& s) { s.queries = s.keys = 200; })) == one);  // padded to tiles
  const int64_t kv_heads = kShape.kv_heads;
  CHECK(slice_below(4 * one, kShape) == AttentionSlice{4, kv_heads});
  CHECK(slice_below(3 * one, kShape) == AttentionSlice{2, kv_heads});  // a divisor of the batch
  CHECK(slice_below(one, kShape) == AttentionSlice{1, kv_heads});
  CHECK(slice_below(one - 1, kShape) == AttentionSlice{1, kv_heads / 2});
  CHECK(slice_below(one / static_cast<size_t>(kv_heads), kShape) == AttentionSlice{1, 1});
  CHECK(slice_below(one / static_cast<size_t>(kv_heads) - 1, kShape) == AttentionSlice{});
  // Seven heads have no equal slices of three or two, so one is processed at a time.
  const AttentionShape seven = with([](auto& s) { s.heads = s.kv_heads = 7; });
  CHECK(slice_below(3 * score_gradient_bytes(seven) / 7, seven) == AttentionSlice{1, 1});
  // 5 heads of 3 queries: slices of lse would not start on 16 bytes.
  const AttentionShape odd{4, 3, 3, 5, 5, 64};
  CHECK(slice_below(2 * score_gradient_bytes(odd), odd) == AttentionSlice{});
  // Heads of one sequence are aligned in groups of four, whatever its length.
  const AttentionShape grouped{1, 8190, 8190, 32, 8, 128};
  CHECK(slice_below(kScoreGradientLimit, grouped) == AttentionSlice{1, 4});
  const AttentionShape single{1, 16383, 16383, 25, 25, 64};
  CHECK(slice_below(kScoreGradientLimit, single) == AttentionSlice{});
  CHECK_THAT(cudnn_refusal(AttentionPass::backward, kVersion, 9, single, {}, DType::bf16, false),
             Contains("multiple of 16 bytes"));
  // And those of doc_start would not, whatever the heads.
  const AttentionShape even_heads{4, 3, 3, 4, 4, 64};
  CHECK(slice_below(2 * score_gradient_bytes(even_heads), even_heads) == AttentionSlice{});
  CHECK(slice_below(4 * score_gradient_bytes(even_heads), even_heads) == AttentionSlice{4, 4});
}
