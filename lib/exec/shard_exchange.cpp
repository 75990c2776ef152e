#include "exec/shard_exchange.h"

#include <utility>

namespace fp {
namespace {

// Returns a tensor as a message, which may consist of equal pieces; packed rows are sent as integers.
Tensor message(const Tensor& t) {
  if (t.dtype != DType::u8) return t.reshaped({t.elements()});
  return {t.data, DType::i32, {static_cast<int64_t>(t.bytes()) / 4}, t.residence};
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
  memory_.clear();
}

ArenaTensor ShardExchange::packed(const BlockFormat& f, int64_t rows, int64_t columns, MemoryClass c) const {
  return env_->arena->alloc(DType::u8, {rows, packed_bytes(f, columns)}, c);
}

ShardExchange::Pending ShardExchange::start_gather(const Tensor& whole, const Tensor& part) const {
  Pending p;
  const std::optional<BlockFormat> format = env_->formats.differences ? std::nullopt : env_->formats.weights;
  const int ranks = data_->size();
  if (ranks == 1 || (!format && !through_nodes())) {
    p.request_ = data_->start_all_gather(whole, part);
    return p;
  }
  const int64_t n = part.elements();
  const Tensor weights = whole.reshaped({ranks, n});
  Tensor rows = weights, own = as_row(part);
  if (format) {
    rows = p.keep(packed(*format, ranks, n, MemoryClass::parameters));
    own = rows.slice(data_->rank(), 1);
    env_->ops->quantize({own, as_row(part), *format});
  }
  Tensor kept;
  if (through_nodes())
    kept = start_spread(p, own);
  else
    p.request_ = data_->start_all_gather(message(rows), message(own));
  p.finish_ = [this, format, weights, rows, kept] {
    if (kept) in_node_->all_gather(message(rows), message(kept));
    if (format) env_->ops->sum_quantized({weights, as_parts(rows, 1), *format});
  };
  return p;
}

Tensor ShardExchange::start_spread(Pending& p, const Tensor& row) const {
  const int inner = in_node_->size(), nodes = across_nodes_->size();
  const int64_t elements = message(row).elements();
  const auto rows = [&] { return p.keep(env_->arena->alloc(row.dtype, {nodes, row.cols()}, MemoryClass::parameters)); };
  // A node's rank at place r keeps the shards [r * nodes, (r + 1) * nodes); the data ranks of a node are consecutive.
  const Tensor sent = rows(), received = rows();
  for (int node = 0; node < nodes; ++node) env_->ops->copy({message(sent.slice(node, 1)), message(row)});
  std::vector<int64_t> sends, recvs;
  for (int rank = 0; rank < data_->size(); ++rank) {
    sends.push_back(rank % inner == data_->rank() / nodes ? elements : 0);
    recvs.push_back(rank / nodes == in_node_->rank() ? elements : 0);
  }
  p.request_ = data_->start_all_to_all(message(received), message(sent), std::move(sends), std::move(recvs));
  return received;
}

ShardExchange::Pending ShardExchange::start_add_differences(const Tensor& held, const Tensor& mine) const {
  Pending p;
  const BlockFormat f = *env_->formats.weights;
  const int ranks = data_->size();
  const int64_t n = mine.elements();
  const Tensor all = p.keep(packed(f, ranks, n, MemoryClass::parameters)), own = all.slice(data_->rank(), 1);
  env_->ops->quantize({own, as_row(mine), f, 1, as_row(held.slice(data_->rank() * n, n))});
  Tensor kept;
  if (through_nodes())
    kept = start_spread(p, own);
  else
    p.request_ = data_->start_all_gather(message(all), message(own));
  p.finish_ = [this, f, held = held.reshaped({ranks, n}), all, kept] {
    if (kept) in_node_->all_gather(message(all), message(kept));
    env_->ops->sum_quantized({held, as_parts(all, 1), f, 1, Write::add});
  };
  return p;
}

ShardExchange::Pending ShardExchange::start_add_differences(const Tensor& kept, const Tensor& own,
                                                            const Tensor& mine) const {
  Pending p;
  const BlockFormat f = *env_->formats.weights;
  const int64_t n = mine.elements();
  const Tensor codes = p.keep(packed(f, 1, n, MemoryClass::parameters));
  env_->ops->quantize({codes, as_row(mine), f, 1, as_row(own)});
  const Tensor received = start_spread(p, codes);
  env_->ops->sum_quantized({as_row(own), as_parts(codes, 1), f, 1, Write::add});
  p.finish_ = [this, f, rows = kept.reshaped({across_nodes_->size(), n}), received] {
    env_->ops->sum_quantized({rows, as_parts(received, 1), f, 1, Write::add});
  };
  return p;
}

ShardExchange::Pending ShardExchange::start_sum_through_nodes(const Tensor& part, const Tensor& whole) const {
  Pending p;
  const int inner = in_node_->size(), nodes = across_nodes_->size();
  const int64_t n = part.elements();
  // As in start_spread(), but the other way: the rank at place r has the node's sums of nodes consecutive shards.
  const Tensor of_node = p.keep(env_->arena->alloc(whole.dtype, {nodes * n}, MemoryClass::gradients));
  p.request_ = in_node_->start_reduce_scatter(of_node, whole);
  p.finish_ = [this, inner, nodes, n, part, of_node] {
    const ArenaTensor sums = env_->arena->alloc(of_node.dtype, {nodes, n}, MemoryClass::gradients);
    std::vector<int64_t> sends, recvs;
    for (int rank = 0; rank < data_->size(); ++rank) {
      sends.push_back(rank / nodes == in_node_->rank() ? n : 0);
      recvs.push_back(rank % inner == data_->rank() / nodes ? n : 0);
    }
    data_->start_all_to_all(message(sums), of_node, std::move(sends), std::move(recvs)).wait();
    Ops& ops = *env_->ops;
    const bool narrow = part.dtype != DType::f32;
    const ArenaTensor wide = narrow ? env_->alloc_f32({1, n}) : ArenaTensor();
    const Tensor sum = narrow ? *wide : as_row(part);
    for (int node = 0; node < nodes; ++node) {
      const Tensor row = sums->slice(node, 1);
      if (node > 0)
        ops.accumulate({sum, row});
      else if (narrow)
        ops.cast({sum, row});
      else
        ops.copy({sum, row});
    }
    if (narrow) ops.cast({as_row(part), sum});
  };
  return p;
}

ShardExchange::Pending ShardExchange::start_reduce_scatter(const Tensor& part, const Tensor& whole) const {
  Pending p;
  const std::optional<BlockFormat>&last = env_->formats.gradients, &first = env_->formats.node_gradients;
  const int ranks = data_->size();
  if (!last && ranks > 1 && through_nodes()) return start_sum_through_nodes(part, whole);
  if (!last || ranks == 1) {
    p.request_ = data_->start_reduce_scatter(part, whole);
    return p;
  }
  const int64_t n = part.elements();
  Ops* const ops = env_->ops;
  if (across_nodes_ == nullptr) {
    const BlockFormat f = in_node_ != nullptr ? *first : *last;
    const Tensor sent = p.keep(packed(f, ranks, n, MemoryClass::gradients)),
                 received = p.keep(packed(f, ranks, n, MemoryClass::gradients));
    ops->quantize({sent, whole.reshaped({ranks, n}), f});
    p.request_ = data_->start_all_to_all(message(received), message(sent));
    p.finish_ = [ops, f, part, ranks, received] { ops->sum_quantized({as_row(part), as_parts(received, ranks), f}); };
    return p;
  }
  const int inner = in_node_->size(), outer = across_nodes_->size();
  const Tensor sent = p.keep(packed(*first, ranks, n, MemoryClass::gradients)),
               received = p.keep(packed(*first, ranks, n, MemoryClass::gradients));
  ops->quantize({sent, whole.reshaped({ranks, n}), *first, inner});
  p.request_ = in_node_->start_all_to_all(message(received), message(sent));
  p.finish_ = [this, ops, part, n, inner, outer, from = *first, to = *last, received] {
    const ArenaTensor sums = packed(to, outer, n, MemoryClass::gradients),
                      all = packed(to, outer, n, MemoryClass::gradients);
    ops->requantize_sums({sums, as_parts(received, inner), n, from, to});
    across_nodes_->all_to_all(message(all), message(sums));
    ops->sum_quantized({as_row(part), as_parts(all, outer), to});
  };
  return p;
}

}  // namespace fp
