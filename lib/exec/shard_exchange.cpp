#include "exec/shard_exchange.h"

#include <utility>

namespace fp {
namespace {

// Returns packed rows as a message of equal pieces.
Tensor message(const Tensor& packed) {
  return {packed.data, DType::i32, {static_cast<int64_t>(packed.bytes()) / 4}, packed.residence};
}

// Returns packed rows [P * S, bytes] as the parts [P,S,bytes] of sums.
Tensor as_parts(const Tensor& packed, int64_t parts) {
  return packed.reshaped({parts, packed.rows() / parts, packed.cols()});
}

Tensor as_row(const Tensor& t) { return t.reshaped({1, t.elements()}); }

}  // namespace

void ShardExchange::Pending::wait() {
  request_.wait();
  if (finish_) std::exchange(finish_, {})();
  sent_.reset();
  received_.reset();
}

ArenaTensor ShardExchange::packed(const BlockFormat& f, int64_t rows, int64_t columns, MemoryClass c) const {
  return env_->arena->alloc(DType::u8, {rows, packed_bytes(f, columns)}, c);
}

ShardExchange::Pending ShardExchange::start_gather(const Tensor& whole, const Tensor& part) const {
  Pending p;
  const std::optional<BlockFormat>& format = env_->formats.weights;
  const int ranks = data_->size();
  if (!format || ranks == 1) {
    p.request_ = data_->start_all_gather(whole, part);
    return p;
  }
  const int64_t n = part.elements();
  p.received_ = packed(*format, ranks, n, MemoryClass::parameters);
  const Tensor all = p.received_, own = all.slice(data_->rank(), 1);
  env_->ops->quantize({own, as_row(part), *format});
  p.request_ = data_->start_all_gather(message(all), message(own));
  p.finish_ = [ops = env_->ops, f = *format, whole = whole.reshaped({ranks, n}), all] {
    ops->sum_quantized({whole, as_parts(all, 1), f});
  };
  return p;
}

ShardExchange::Pending ShardExchange::start_reduce_scatter(const Tensor& part, const Tensor& whole) const {
  Pending p;
  const std::optional<BlockFormat>&last = env_->formats.gradients, &first = env_->formats.node_gradients;
  const int ranks = data_->size();
  if (!last || ranks == 1) {
    p.request_ = data_->start_reduce_scatter(part, whole);
    return p;
  }
  const int64_t n = part.elements();
  Ops* const ops = env_->ops;
  if (across_nodes_ == nullptr) {
    const BlockFormat f = in_node_ != nullptr ? *first : *last;
    p.sent_ = packed(f, ranks, n, MemoryClass::gradients);
    p.received_ = packed(f, ranks, n, MemoryClass::gradients);
    ops->quantize({p.sent_, whole.reshaped({ranks, n}), f});
    p.request_ = data_->start_all_to_all(message(p.received_), message(p.sent_));
    p.finish_ = [ops, f, part, ranks, received = Tensor(p.received_)] {
      ops->sum_quantized({as_row(part), as_parts(received, ranks), f});
    };
    return p;
  }
  const int inner = in_node_->size(), outer = across_nodes_->size();
  p.sent_ = packed(*first, ranks, n, MemoryClass::gradients);
  p.received_ = packed(*first, ranks, n, MemoryClass::gradients);
  ops->quantize({p.sent_, whole.reshaped({ranks, n}), *first, inner});
  p.request_ = in_node_->start_all_to_all(message(p.received_), message(p.sent_));
  p.finish_ = [this, ops, part, n, inner, outer, from = *first, to = *last, received = Tensor(p.received_)] {
    const ArenaTensor sums = packed(to, outer, n, MemoryClass::gradients),
                      all = packed(to, outer, n, MemoryClass::gradients);
    ops->requantize_sums({sums, as_parts(received, inner), n, from, to});
    across_nodes_->all_to_all(message(all), message(sums));
    ops->sum_quantized({as_row(part), as_parts(all, outer), to});
  };
  return p;
}

}  // namespace fp
