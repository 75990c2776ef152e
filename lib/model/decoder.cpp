#include "model/decoder.h"

#include <bit>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace fp {
namespace {

constexpr int64_t kAnyLength = 32;

// Returns how many of n tokens are passed through the model at once: few lengths, so that a dry run can cover them all.
int64_t next_piece(int64_t n) {
  return n <= kAnyLength ? n : static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(n)));
}

}  // namespace

Decoder::Decoder(Model& model, int64_t capacity) : model_(&model), capacity_(capacity) {
  const Architecture& a = model.architecture();
  for (int64_t l = 0; l < a.layers; ++l) {
    keys_.push_back(model.env().alloc({capacity, a.heads.kv_heads, a.heads.head_dim}));
    values_.push_back(model.env().alloc({capacity, a.heads.kv_heads, a.heads.head_dim}));
  }
  logits_.resize(static_cast<size_t>(a.vocab));
}

ArenaTensor Decoder::pass(std::span<const int32_t> tokens) {
  const auto n = static_cast<int64_t>(tokens.size());
  const ModelEnv& e = model_->env();
  std::vector<int32_t> host(static_cast<size_t>(n));
  std::iota(host.begin(), host.end(), static_cast<int32_t>(length_));
  const ArenaTensor ids = e.arena->alloc(DType::i32, {n}), positions = e.arena->alloc(DType::i32, {n});
  e.ops->copy_in({ids, tokens.data()});
  e.ops->copy_in({positions, host.data()});
  ArenaTensor x = model_->embedding().embed(ids, positions);
  for (size_t l = 0; l < keys_.size(); ++l)
    x = model_->blocks()[l].decode(std::move(x), positions, length_, keys_[l], values_[l]);
  length_ += n;
  return x;
}

void Decoder::compute_logits(ArenaTensor x) {
  const ModelEnv& e = model_->env();
  ArenaTensor row = e.alloc({1, model_->architecture().hidden});
  e.ops->copy({row, x->slice(x->shape[0] - 1, 1)});
  x.reset();
  model_->head().logits(std::move(row), logits_);
}

void Decoder::check_ids(std::span<const int32_t> tokens, int64_t vocab) {
  for (const int32_t id : tokens)
    if (id < 0 || id >= vocab)
      throw DataError(
          fmt::format("the tokenizer gives token id {}, but the model's vocabulary ends at {} (model.vocab: {})", id,
                      vocab - 1, vocab));
}

std::span<const float> Decoder::append(std::span<const int32_t> tokens) {
  check_ids(tokens, model_->architecture().vocab);
  const auto n = static_cast<int64_t>(tokens.size());
  FP_CHECK(n > 0 && length_ + n <= capacity_, "decoder holds {} of {} positions, {} more do not fit", length_,
           capacity_, n);
  for (;;) {
    const auto piece = static_cast<size_t>(next_piece(static_cast<int64_t>(tokens.size())));
    ArenaTensor x = pass(tokens.first(piece));
    tokens = tokens.subspan(piece);
    if (tokens.empty()) {
      compute_logits(std::move(x));
      return logits_;
    }
  }
}

// What a pass allocates depends on its length; scratch of attention may also depend on the positions before it.
void Decoder::dry_run(Model& model, int64_t capacity) {
  Decoder decoder(model, capacity);
  for (int64_t n = 1; n <= capacity; n = n < kAnyLength ? n + 1 : 2 * n) {
    const std::vector<int32_t> tokens(static_cast<size_t>(n), 0);
    const auto at = [&](int64_t past) {
      decoder.length_ = past;
      decoder.append(tokens);
    };
    at(0);
    for (int64_t past = 1; n == 1 && past < capacity - 1; past *= 2) at(past);
    at(capacity - n);
  }
}

}  // namespace fp
