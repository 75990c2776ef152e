// The memory of generation: the dry run covers whatever lengths are appended.
#include <catch2/catch.hpp>

#include "base/philox.h"
#include "dryrun/setup.h"
#include "inference/inference.h"
#include "model/groups.h"
#include "support/tiny_models.h"

using namespace fp;
using namespace fp::test;

namespace {

// A model of random odd shape, the same for the same number.
ModelSection random_model(uint32_t number) {
  uint32_t at = 0;
  const auto draw = [&](uint32_t from, uint32_t to) {
    const auto words = Philox::block({number, at++, 0, 0}, Philox::key(7, Purpose::sampling));
    return static_cast<int64_t>(from + words[0] % (to - from + 1));
  };
  ModelSection m = tiny_model(tiny_names()[number % tiny_names().size()]);
  m.layers = draw(1, 4);
  const int64_t groups = draw(1, 3);
  m.kv_heads = draw(1, 4);
  m.heads = m.kv_heads * groups;
  m.head_dim = 4 * draw(1, 8);
  m.rope.short_factor.assign(m.rope.short_factor.empty() ? 0 : static_cast<size_t>(m.head_dim / 2), 1.1);
  m.rope.long_factor.assign(m.rope.long_factor.empty() ? 0 : static_cast<size_t>(m.head_dim / 2), 1.9);
  m.hidden = m.heads * m.head_dim;
  m.ffn = draw(1, 300);
  m.vocab = draw(40, 3000);
  m.max_position = 64;
  return m;
}

// Appends a prompt and then `more` single tokens, or as many as fit, to a model in an arena of exactly the bytes that
// were predicted. The ops only count, so the arena's memory is never touched.
void append_all(const ModelSection& m, DType compute, int64_t context, int64_t prompt, int64_t more) {
  const auto ops = make_counting_ops();
  const Groups groups = make_self_groups();
  RunSpec spec;
  spec.model = m;
  ModelOptions options = model_options(spec);
  options.training = false;
  options.compute = compute;
  options.positions = context;
  InferenceOptions use;
  use.context = context;
  const size_t bytes = inference_bytes(m, options, {}, use, *ops, groups);
  Arena arena(host_memory(bytes, false), bytes);
  Model model(m, options, *ops, arena, groups);
  Decoder decoder(model, context);
  const std::vector<int32_t> tokens(static_cast<size_t>(prompt), 0);
  CHECK_NOTHROW(decoder.append(tokens));
  for (int64_t i = 0; i < more && decoder.length() < context; ++i)
    CHECK_NOTHROW(decoder.append(std::span(tokens).first(1)));
  CHECK(arena.peak() <= bytes);
}

}  // namespace

TEST_CASE("the predicted memory holds every prompt and every token of a text", "[inference][slow]") {
  for (uint32_t number = 0; number < 30; ++number)
    for (int64_t context = 1; context <= 64; context += context < 8 ? 1 : 7)
      for (const int64_t prompt : {int64_t{1}, (context + 1) / 2, context}) {
        CAPTURE(number, context, prompt);
        append_all(random_model(number), number % 2 == 0 ? DType::bf16 : DType::f32, context, prompt, 3);
      }
}

TEST_CASE("the predicted memory holds every prompt of up to 64 positions", "[inference][nightly]") {
  for (uint32_t number = 0; number < 30; ++number)
    for (const DType compute : {DType::bf16, DType::f32})
      for (int64_t context = 1; context <= 64; ++context)
        for (int64_t prompt = 1; prompt <= context; ++prompt) {
          CAPTURE(number, context, prompt);
          append_all(random_model(number), compute, context, prompt, 64);
        }
}
