#include <catch2/catch.hpp>

#include "operands.h"
#include "ops/counting.h"

using namespace fp;
using namespace fp::test;

namespace {

// A wrong call must fail before any memory is touched, with the same message on every backend.
void refused(const std::function<void(Ops&)>& call, const std::vector<std::string>& says) {
  std::vector<std::shared_ptr<Ops>> every{oracle().ops, std::shared_ptr<Ops>(make_counting_ops())};
  for (const Backend& backend : backends()) every.push_back(backend.ops);
  for (const auto& ops : every) {
    INFO(ops->name());
    std::string message;
    try {
      call(*ops);
    } catch (const InternalError& e) {
      message = e.what();
    }
    for (const std::string& part : says) {
      INFO("\"" << message << "\" should say \"" << part << "\"");
      CHECK(message.find(part) != std::string::npos);
    }
  }
}

Tensor at(DType t, const Shape& s) { return {reinterpret_cast<void*>(uintptr_t{1} << 60), t, s}; }
Tensor half(const Shape& s) { return at(DType::bf16, s); }
Tensor single(const Shape& s) { return at(DType::f32, s); }
Tensor ids(const Shape& s) { return at(DType::i32, s); }

}  // namespace

TEST_CASE("wrong shapes and types of linear are refused with op and tensor named") {
  refused(
      [](Ops& o) {
        o.linear({half({4, 3}), half({4, 5}), half({3, 6}), {}});
      },
      {"linear: w is bf16 [3,6]", "bf16 [3,5]"});
  refused(
      [](Ops& o) {
        o.linear({half({4, 2}), half({4, 5}), half({3, 5}), {}});
      },
      {"linear: y is bf16 [4,2]", "[4,3]"});
  refused(
      [](Ops& o) {
        o.linear({half({4, 3}), half({4, 5}), single({3, 5}), {}});
      },
      {"linear: w is fp32 [3,5]", "expected bf16"});
  refused(
      [](Ops& o) {
        o.linear({half({4, 3}), half({4, 5}), half({3, 5}), half({4})});
      },
      {"linear: bias is bf16 [4]", "3"});
  refused([](Ops& o) { o.linear({{}, half({4, 5}), half({3, 5}), {}}); }, {"linear: y is empty"});
  refused(
      [](Ops& o) {
        o.linear_backward_input({half({4, 5}), half({4, 3}), half({5, 3})});
      },
      {"linear_backward_input: w is bf16 [5,3]"});
  refused(
      [](Ops& o) {
        o.linear_backward_weight({half({3, 5}), half({4, 3}), half({4, 5}), Write::set});
      },
      {"linear_backward_weight: dw is bf16 [3,5]", "fp32 [3,5]"});
  refused(
      [](Ops& o) {
        o.linear_backward_weight({single({3, 5}), half({4, 3}), half({7, 5}), Write::set});
      },
      {"linear_backward_weight: x is bf16 [7,5]", "[4,5]"});
  refused([](Ops& o) { o.bias_backward({single({4}), half({4, 3}), Write::set}); }, {"bias_backward: db is fp32 [4]"});
}

TEST_CASE("wrong shapes and types of token-local ops are refused with op and tensor named") {
  refused(
      [](Ops& o) {
        o.embedding({half({4, 8}), ids({5}), half({9, 8}), {}, {}, 1.0});
      },
      {"embedding: ids is i32 [5]", "4"});
  refused(
      [](Ops& o) {
        o.embedding({half({4, 8}), ids({4}), half({9, 8}), ids({4}), {}, 1.0});
      },
      {"embedding: positions", "empty"});
  refused(
      [](Ops& o) {
        o.embedding_backward({half({9, 8}), half({4, 8}), ids({4}), 1.0});
      },
      {"embedding_backward: dtable is bf16"});
  refused(
      [](Ops& o) {
        o.norm({half({4, 8}), {}, single({4, 3}), half({4, 8}), {}, half({8}), {}, {}});
      },
      {"norm: stats is fp32 [4,3]"});
  refused(
      [](Ops& o) {
        o.norm({half({4, 8}), half({4, 8}), single({4, 2}), half({4, 8}), {}, half({8}), {}, {}});
      },
      {"norm: sum", "expected empty as residual is"});
  refused(
      [](Ops& o) {
        o.norm({half({4, 8}), {}, single({4, 2}), half({4, 8}), half({4, 8}), half({8}), {}, {}});
      },
      {"norm: sum is empty"});
  refused(
      [](Ops& o) {
        o.norm_backward_input({half({4, 8}), half({4, 7}), half({4, 8}), single({4, 2}), half({8}), {}, Write::set});
      },
      {"norm_backward_input: dy is bf16 [4,7]"});
  refused(
      [](Ops& o) {
        o.norm_backward_weight({half({8}), {}, half({4, 8}), half({4, 8}), single({4, 2}), {}, Write::set});
      },
      {"norm_backward_weight: dgain is bf16 [8]", "fp32"});
  refused(
      [](Ops& o) {
        o.activation({half({4, 8}), half({4, 8}), {Activation::swiglu, 0}});
      },
      {"activation: x is bf16 [4,8]", "[4,16]"});
  refused(
      [](Ops& o) {
        o.activation_backward({half({4, 8}), half({4, 8}), half({4, 16}), {Activation::swiglu, 0}});
      },
      {"activation_backward: dx is bf16 [4,8]"});
  refused([](Ops& o) { o.add({half({4}), half({4}), single({4})}); }, {"add: b is fp32 [4]"});
  refused([](Ops& o) { o.accumulate({half({4}), single({5})}); }, {"accumulate: dst is bf16 [4]", "5"});
  refused([](Ops& o) { o.accumulate({single({4}), ids({4})}); }, {"accumulate: src is i32 [4]"});
  refused([](Ops& o) { o.scaled_add({half({4}), single({5}), {}, 1.0, 0.0}); }, {"scaled_add: y is bf16 [4]", "5"});
  refused([](Ops& o) { o.scaled_add({half({4}), single({4}), half({4}), 1.0, 1.0}); }, {"scaled_add: b is bf16 [4]"});
  refused(
      [](Ops& o) {
        o.dropout({half({2, 3, 4}), half({2, 3, 4}), {}, 0, {0.1}});
      },
      {"dropout: sample_ids is empty", "i32 [2,2]"});
  refused(
      [](Ops& o) {
        o.dropout({half({2, 3, 4}), half({2, 3, 4}), ids({2, 2}), 0, {1.0}});
      },
      {"dropout: dropout p is 1"});
  refused([](Ops& o) { o.cast({half({4}), half({4})}); }, {"cast: dst is bf16 [4]", "fp32"});
  refused([](Ops& o) { o.copy({half({4}), half({5})}); }, {"copy: dst is bf16 [4]", "5"});
  const std::vector<int> swapped{1, 0}, twice{1, 1}, beyond{0, 2};
  refused([&](Ops& o) { o.permute({half({4, 5}), half({4, 5}), swapped}); }, {"permute: y is bf16 [4,5]", "[5,4]"});
  refused([&](Ops& o) { o.permute({single({5, 4}), half({4, 5}), swapped}); }, {"permute: y is fp32 [5,4]", "bf16"});
  refused(
      [&](Ops& o) {
        o.permute({half({5, 5}), half({4, 5}), twice});
      },
      {"permute: order names dimension 1", "once"});
  refused([&](Ops& o) { o.permute({half({4, 5}), half({4, 5}), beyond}); }, {"permute: order names dimension 2"});
  refused([&](Ops& o) { o.permute({half({5, 4}), half({4, 5, 6}), swapped}); }, {"permute: an order of 2", "[4,5,6]"});
  const auto columns = [](int64_t y_first, const Tensor& x, int64_t x_first, int64_t count) {
    return [=](Ops& o) { o.copy_columns({half({4, 6}), y_first, x, x_first, count, Write::set}); };
  };
  refused(columns(0, half({5, 6}), 0, 1), {"copy_columns: y is bf16 [4,6]", "[5,6]"});
  refused(columns(0, single({4, 6}), 0, 1), {"copy_columns: y is bf16 [4,6]", "fp32"});
  refused(columns(4, half({4, 9}), 0, 3), {"copy_columns: columns [4, 7) of y [4,6] from [0, 3) of x [4,9]"});
  refused(columns(0, half({4, 9}), 7, 3), {"columns [0, 3) of y [4,6] from [7, 10) of x [4,9]"});
  refused(columns(-1, half({4, 9}), 0, 1), {"columns [-1, 0) of y"});
  refused(columns(2, half({4, 9}), 2, -1), {"columns [2, 1) of y"});
  refused([](Ops& o) { o.find_nonfinite({ids({4}), half({5, 8})}); }, {"find_nonfinite: first is i32 [4]", "5"});
  refused([](Ops& o) { o.find_nonfinite({ids({1}), ids({8})}); }, {"find_nonfinite: x is i32 [8]"});
  refused([](Ops& o) { o.find_nonfinite({ids({1}), half({int64_t{1} << 31})}); }, {"fewer than 2^31 columns"});
}

TEST_CASE("wrong shapes of attention and of the QKV split are refused with op and tensor named") {
  const HeadLayout layout{4, 2, 8, false};
  refused(
      [&](Ops& o) {
        o.split_qkv({half({3, 4, 8}), half({3, 2, 8}), half({3, 2, 8}), half({3, 96}), layout, {}, {}});
      },
      {"split_qkv: qkv is bf16 [3,96]", "[3,64]"});
  refused(
      [&](Ops& o) {
        o.split_qkv({half({3, 4, 8}), half({3, 4, 8}), half({3, 2, 8}), half({3, 64}), layout, {}, {}});
      },
      {"split_qkv: k is bf16 [3,4,8]"});
  refused(
      [&](Ops& o) {
        o.split_qkv_backward({half({3, 64}),
                              half({3, 4, 8}),
                              half({3, 2, 8}),
                              half({3, 2, 8}),
                              layout,
                              {single({9, 3}), single({9, 3})},
                              ids({3})});
      },
      {"split_qkv_backward: rope.cos is fp32 [9,3]", "[9,4]"});
  const Rope tables{single({9, 4}), single({9, 4})};
  refused(
      [&](Ops& o) {
        o.rope({half({3, 4, 8}), half({3, 4, 8}), tables, ids({4})});
      },
      {"rope: positions is i32 [4]", "3"});
  refused([&](Ops& o) { o.rope({half({3, 4, 8}), half({3, 4, 6}), tables, ids({3})}); }, {"rope: y is bf16 [3,4,8]"});
  refused([&](Ops& o) { o.rope({half({3, 4, 8}), half({3, 4, 8}), {}, ids({3})}); }, {"rope: rope.cos is empty"});
  const Tensor q = half({2, 5, 4, 8}), k = half({2, 7, 2, 8}), lse = single({2, 4, 5});
  refused(
      [&](Ops& o) {
        o.attention({q, lse, q, half({2, 7, 3, 8}), k, {}, {}, {}});
      },
      {"attention: 4 heads on 3 kv heads"});
  refused(
      [&](Ops& o) {
        o.attention({q, lse, q, k, half({2, 6, 2, 8}), {}, {}, {}});
      },
      {"attention: v is bf16 [2,6,2,8]", "[2,7,2,8]"});
  refused(
      [&](Ops& o) {
        o.attention({q, single({2, 5, 4}), q, k, k, {}, {}, {}});
      },
      {"attention: lse is fp32 [2,5,4]", "[2,4,5]"});
  refused(
      [&](Ops& o) {
        o.attention({q, lse, q, k, k, ids({2, 7}), {}, {}});
      },
      {"attention: doc_start is i32 [2,7]", "[2,5]"});
  refused([&](Ops& o) { o.attention_merge({q, lse, q, lse}); }, {"attention_merge: o is bf16 [2,5,4,8]", "fp32"});
  refused(
      [&](Ops& o) {
        o.attention_merge({single({2, 5, 4, 8}), single({2, 5, 4}), q, lse});
      },
      {"attention_merge: lse is fp32 [2,5,4]", "[2,4,5]"});
  refused(
      [&](Ops& o) {
        o.attention_merge({single({2, 5, 4, 8}), lse, half({2, 7, 4, 8}), lse});
      },
      {"attention_merge: o_part is bf16 [2,7,4,8]", "[2,5,4,8]"});
  AttentionSpec sparse;
  sparse.block = 64;
  refused(
      [&](Ops& o) {
        o.attention({q, lse, q, k, k, {}, {}, sparse});
      },
      {"attention: blocksparse", "vertical stride 0"});
  refused(
      [&](Ops& o) {
        o.attention_backward({q, q, k, q, q, k, k, q, lse, {}, {}, {}});
      },
      {"attention_backward: dk is bf16 [2,5,4,8]"});
}

TEST_CASE("wrong shapes of the loss and of the optimizer are refused with op and tensor named") {
  const Vocabulary v{0, 9, {}, 1.0};
  refused(
      [&](Ops& o) {
        o.softmax_stats({single({4, 2}), half({4, 9}), ids({4}), v});
      },
      {"softmax_stats: stats is fp32 [4,2]", "[4,3]"});
  refused(
      [](Ops& o) {
        o.softmax_stats_merge({single({4, 3}), single({2, 5, 3})});
      },
      {"softmax_stats_merge: stats is fp32 [4,3]", "[5,3]"});
  refused(
      [](Ops& o) {
        o.softmax_stats_merge({single({4, 3}), half({2, 4, 3})});
      },
      {"softmax_stats_merge: parts is bf16 [2,4,3]", "fp32"});
  refused(
      [](Ops& o) {
        o.softmax_stats_merge({single({4, 3}), single({8, 3})});
      },
      {"softmax_stats_merge: parts", "3 dim"});
  refused(
      [&](Ops& o) {
        o.cross_entropy({single({4, 2}), single({4, 3}), ids({5})});
      },
      {"cross_entropy: targets is i32 [5]"});
  refused(
      [&](Ops& o) {
        o.cross_entropy_backward({half({4, 9}), half({4, 2}), ids({4}), v, 1.0, 0.0});
      },
      {"cross_entropy_backward: loss is bf16 [4,2]"});
  const std::vector<IndexRange> beyond{{60, 5}};
  refused([&](Ops& o) { o.sum_squares({single({1}), single({64}), beyond}); }, {"sum_squares: segment [60, 65) of 64"});
  refused(
      [](Ops& o) {
        o.adamw({single({4}), {single({4}), single({4})}, single({4}), single({4}), {}, {}});
      },
      {"adamw: weights is fp32 [4]"});
  UpdateOptions zero;
  zero.step = 0;
  refused(
      [&](Ops& o) {
        o.adamw({single({4}), {single({4}), single({4})}, single({4}), {}, zero, {}});
      },
      {"adamw: step is 0"});
}
