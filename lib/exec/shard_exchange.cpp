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
  if (!format || env_->formats.differences || ranks == 1) {
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

void ShardExchange::start_spread(Pending& p, const Tensor& codes) const {
  const int inner = in_node_->size(), nodes = across_nodes_->size();
  const int64_t bytes = codes.cols(), words = message(codes).elements();
  // A node's rank at place r keeps the shards [r * nodes, (r + 1) * nodes), and the data ranks of a node are
  // consecutive.
  p.sent_ = env_->arena->alloc(DType::u8, {nodes, bytes}, MemoryClass::parameters);
  p.received_ = env_->arena->alloc(DType::u8, {nodes, bytes}, MemoryClass::parameters);
  for (int node = 0; node < nodes; ++node) env_->ops->copy({message(p.sent_->slice(node, 1)), message(codes)});
  std::vector<int64_t> sends, recvs;
  for (int rank = 0; rank < data_->size(); ++rank) {
    sends.push_back(rank % inner == data_->rank() / nodes ? words : 0);
    recvs.push_back(rank / nodes == in_node_->rank() ? words : 0);
  }
  p.request_ = data_->start_all_to_all(message(p.received_), message(p.sent_), std::move(sends), std::move(recvs));
}

ShardExchange::Pending ShardExchange::start_add_differences(const Tensor& held, const Tensor& mine) const {
  Pending p;
  const BlockFormat f = *env_->formats.weights;
  const int ranks = data_->size();
  const int64_t n = mine.elements();
  Ops* const ops = env_->ops;
  const Tensor base = held.slice(data_->rank() * n, n), rows = held.reshaped({ranks, n});
  if (across_nodes_ == nullptr) {
    p.received_ = packed(f, ranks, n, MemoryClass::parameters);
    const Tensor all = p.received_, own = all.slice(data_->rank(), 1);
    ops->quantize({own, as_row(mine), f, 1, as_row(base)});
    p.request_ = data_->start_all_gather(message(all), message(own));
    p.finish_ = [ops, f, rows, all] { ops->sum_quantized({rows, as_parts(all, 1), f, 1, Write::add}); };
    return p;
  }
  const ArenaTensor own = packed(f, 1, n, MemoryClass::parameters);
  ops->quantize({own, as_row(mine), f, 1, as_row(base)});
  start_spread(p, own);
  p.finish_ = [this, ops, f, rows, ranks, n, kept = Tensor(p.received_)] {
    const ArenaTensor all = packed(f, ranks, n, MemoryClass::parameters);
    in_node_->all_gather(message(all), message(kept));
    ops->sum_quantized({rows, as_parts(all, 1), f, 1, Write::add});
  };
  return p;
}

ShardExchange::Pending ShardExchange::start_add_differences(const Tensor& kept, const Tensor& own,
                                                            const Tensor& mine) const {
  Pending p;
  const BlockFormat f = *env_->formats.weights;
  const int64_t n = mine.elements();
  const ArenaTensor codes = packed(f, 1, n, MemoryClass::parameters);
  env_->ops->quantize({codes, as_row(mine), f, 1, as_row(own)});
  start_spread(p, codes);
  env_->ops->sum_quantized({as_row(own), as_parts(codes, 1), f, 1, Write::add});
  p.finish_ = [ops = env_->ops, f, rows = kept.reshaped({across_nodes_->size(), n}), received = Tensor(p.received_)] {
    ops->sum_quantized({rows, as_parts(received, 1), f, 1, Write::add});
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
