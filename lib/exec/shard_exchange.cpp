#include "exec/shard_exchange.h"

#include <algorithm>
#include <numeric>
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

// Returns a count of elements, rounded up to whole blocks of a format.
int64_t in_blocks(int64_t elements, const std::optional<BlockFormat>& f) {
  return f ? (elements + f->block - 1) / f->block * f->block : elements;
}

int64_t elements_of(const std::vector<IndexRange>& segments) {
  int64_t sum = 0;
  for (const IndexRange& s : segments) sum += s.count;
  return sum;
}

}  // namespace

// Frees the buffers of the first communication, which the second one does not use.
void ShardExchange::Pending::advance() {
  if (!second_) return;
  request_.wait();
  request_ = std::exchange(second_, {})();
  memory_.clear();
}

void ShardExchange::Pending::wait() {
  advance();
  request_.wait();
  if (finish_) std::exchange(finish_, {})();
  memory_.clear();
  workspace_.reset();
}

ArenaTensor ShardExchange::packed(const BlockFormat& f, int64_t rows, int64_t columns, MemoryClass c, Arena& a) const {
  return a.alloc(DType::u8, {rows, packed_bytes(f, columns)}, c);
}

ShardExchange::Pending ShardExchange::start_gather(const Tensor& whole, const Tensor& part) const {
  Pending p;
  const std::optional<BlockFormat> format = gather_format();
  const int ranks = data_->size();
  if (gathers_in_place()) {
    p.request_ = data_->start_all_gather(whole, part);
    return p;
  }
  const int64_t n = part.elements();
  const Tensor weights = whole.reshaped({ranks, n});
  Tensor rows = weights, own = as_row(part);
  if (format) {
    rows = p.keep(packed(*format, ranks, n, MemoryClass::parameters, *env_->arena));
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
  const Tensor all = p.keep(packed(f, ranks, n, MemoryClass::parameters, *env_->arena)),
               own = all.slice(data_->rank(), 1);
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
  const Tensor codes = p.keep(packed(f, 1, n, MemoryClass::parameters, *env_->arena));
  env_->ops->quantize({codes, as_row(mine), f, 1, as_row(own)});
  const Tensor received = start_spread(p, codes);
  env_->ops->sum_quantized({as_row(own), as_parts(codes, 1), f, 1, Write::add});
  p.finish_ = [this, f, rows = kept.reshaped({across_nodes_->size(), n}), received] {
    env_->ops->sum_quantized({rows, as_parts(received, 1), f, 1, Write::add});
  };
  return p;
}

ShardExchange::Pending ShardExchange::start_sum_through_nodes(const Tensor& part, const Tensor& whole,
                                                              Arena& arena) const {
  Pending p;
  const int inner = in_node_->size(), nodes = across_nodes_->size();
  const int64_t n = part.elements();
  // As in start_spread(), but the other way: the rank at place r has the node's sums of nodes consecutive shards.
  const auto of_node = std::make_shared<ArenaTensor>(arena.alloc(whole.dtype, {nodes * n}, MemoryClass::gradients)),
             sums = std::make_shared<ArenaTensor>();
  p.request_ = in_node_->start_reduce_scatter(*of_node, whole);
  p.second_ = [this, inner, nodes, n, of_node, sums, &arena] {
    *sums = arena.alloc((*of_node)->dtype, {nodes, n}, MemoryClass::gradients);
    std::vector<int64_t> sends, recvs;
    for (int rank = 0; rank < data_->size(); ++rank) {
      sends.push_back(rank / nodes == in_node_->rank() ? n : 0);
      recvs.push_back(rank % inner == data_->rank() / nodes ? n : 0);
    }
    return data_->start_all_to_all(message(*sums), *of_node, std::move(sends), std::move(recvs));
  };
  p.finish_ = [this, nodes, n, part, of_node, sums, &arena] {
    Ops& ops = *env_->ops;
    const bool narrow = part.dtype != DType::f32;
    const ArenaTensor wide = narrow ? arena.alloc(DType::f32, {1, n}, MemoryClass::gradients) : ArenaTensor();
    const Tensor sum = narrow ? *wide : as_row(part);
    for (int node = 0; node < nodes; ++node) {
      const Tensor row = (*sums)->slice(node, 1);
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

void ShardExchange::quantize_with(const Tensor& errors, const Tensor& packed, const Tensor& x,
                                  const BlockFormat& f) const {
  Ops& ops = *env_->ops;
  const double weight = env_->formats.feedback;
  ops.accumulate({x, errors});
  ops.quantize({packed, x, f});
  ops.sum_quantized({x, as_parts(packed, 1), f, -1, Write::add});
  if (weight == 1) return ops.cast({errors, x});
  ops.scaled_add({.y = x, .a = x, .a_scale = weight, .b_scale = 0});
  ops.scaled_add({.y = errors, .a = errors, .a_scale = 1 - weight, .b_scale = 0});
  ops.accumulate({errors, x});
}

ShardExchange::Pending ShardExchange::start_sum(const Tensor& part, const Tensor& whole, const SumFormats& f,
                                                Arena& arena, const Tensor& errors) const {
  Pending p;
  const std::optional<BlockFormat>&last = f.last, &first = f.in_node;
  const int ranks = data_->size();
  if (!last && ranks > 1 && through_nodes()) return start_sum_through_nodes(part, whole, arena);
  if (!last || ranks == 1) {
    p.request_ = data_->start_reduce_scatter(part, whole);
    return p;
  }
  const int64_t n = part.elements();
  Ops* const ops = env_->ops;
  if (across_nodes_ == nullptr) {
    const BlockFormat only = in_node_ != nullptr ? *first : *last;
    const Tensor sent = p.keep(packed(only, ranks, n, MemoryClass::gradients, arena)),
                 received = p.keep(packed(only, ranks, n, MemoryClass::gradients, arena));
    const Tensor rows = whole.reshaped({ranks, n});
    if (errors) {
      const ArenaTensor x = arena.alloc(DType::f32, rows.shape, MemoryClass::gradients);
      whole.dtype == DType::f32 ? ops->copy({x, rows}) : ops->cast({x, rows});
      quantize_with(errors, sent, x, only);
    } else {
      ops->quantize({sent, rows, only});
    }
    p.request_ = data_->start_all_to_all(message(received), message(sent));
    p.finish_ = [ops, only, part, ranks, received] {
      ops->sum_quantized({as_row(part), as_parts(received, ranks), only});
    };
    return p;
  }
  const int inner = in_node_->size(), outer = across_nodes_->size();
  const Tensor sent = p.keep(packed(*first, ranks, n, MemoryClass::gradients, arena)),
               received = p.keep(packed(*first, ranks, n, MemoryClass::gradients, arena));
  ops->quantize({sent, whole.reshaped({ranks, n}), *first, inner});
  p.request_ = in_node_->start_all_to_all(message(received), message(sent));
  const auto of_node = std::make_shared<ArenaTensor>(), of_all = std::make_shared<ArenaTensor>();
  p.second_ = [this, ops, n, inner, outer, &arena, from = *first, to = *last, received, of_node, of_all, errors] {
    *of_node = packed(to, outer, n, MemoryClass::gradients, arena);
    *of_all = packed(to, outer, n, MemoryClass::gradients, arena);
    if (errors) {
      const ArenaTensor sums = arena.alloc(DType::f32, {outer, n}, MemoryClass::gradients);
      ops->sum_quantized({sums, as_parts(received, inner), from});
      quantize_with(errors, *of_node, sums, to);
    } else {
      ops->requantize_sums({*of_node, as_parts(received, inner), n, from, to});
    }
    return across_nodes_->start_all_to_all(message(*of_all), message(*of_node));
  };
  p.finish_ = [ops, part, outer, to = *last, of_node, of_all] {
    ops->sum_quantized({as_row(part), as_parts(*of_all, outer), to});
  };
  return p;
}

// A sum that is taken beside that of the rest: its segments one after the other, each from the beginning of a block,
// then zeros, as long on all ranks.
struct ShardExchange::SumApart {
  std::vector<IndexRange> segments;
  std::vector<int64_t> places;  // of the segments in `memory`
  int64_t length = 0;           // without the zeros at its end
  ArenaTensor memory;
  Tensor part;  // this rank's piece of it
  Pending sum;
};

ShardExchange::SumApart ShardExchange::set_apart(const FormattedParts& parts, const Tensor& whole, Arena& arena) const {
  SumApart a;
  a.segments = parts.segments;
  for (const IndexRange& s : parts.segments) {
    a.places.push_back(a.length);
    a.length += in_blocks(s.count, parts.format);
  }
  const int64_t ranks = data_->size(), each = in_blocks((a.length + ranks - 1) / ranks, parts.format);
  a.memory = arena.alloc(whole.dtype, {ranks * each}, MemoryClass::gradients);
  a.part = a.memory->slice(data_->rank() * each, each);
  for (size_t i = 0; i < a.segments.size(); ++i) {
    const IndexRange& s = a.segments[i];
    const Tensor from = whole.slice(s.first, s.count);
    env_->ops->copy({a.memory->slice(a.places[i], s.count), from});
    env_->ops->zero({from});
    const int64_t end = a.places[i] + s.count, next = i + 1 < a.places.size() ? a.places[i + 1] : ranks * each;
    if (end < next) env_->ops->zero({a.memory->slice(end, next - end)});
  }
  return a;
}

// Sends the sums to the ranks whose pieces of the whole they are. Both orders are that of the elements, so messages are
// consecutive.
void ShardExchange::deliver(const SumApart& a, const Tensor& part, Arena& arena) const {
  const int64_t ranks = data_->size(), rank = data_->rank(), n = part.elements(), each = a.part.elements();
  // Returns the place in a.memory of the first element that belongs to the shard of rank `r` or of a higher rank.
  const auto below = [&](int64_t r) {
    for (size_t i = 0; i < a.segments.size(); ++i)
      if (const IndexRange& s = a.segments[i]; s.first + s.count > r * n)
        return a.places[i] + std::max<int64_t>(0, r * n - s.first);
    return a.length;
  };
  // Returns how many of those from the piece of rank `to` rank `from` has summed.
  const auto moved = [&](int64_t from, int64_t to) {
    return std::max<int64_t>(0, std::min((from + 1) * each, below(to + 1)) - std::max(from * each, below(to)));
  };
  std::vector<int64_t> sends, recvs;
  for (int64_t r = 0; r < ranks; ++r) {
    sends.push_back(moved(rank, r));
    recvs.push_back(moved(r, rank));
  }
  const int64_t mine = std::accumulate(recvs.begin(), recvs.end(), int64_t{0});
  const Tensor sent = a.part.slice(0, std::accumulate(sends.begin(), sends.end(), int64_t{0}));
  const ArenaTensor received = arena.alloc(part.dtype, {std::max<int64_t>(mine, 1)}, MemoryClass::gradients);
  data_->start_all_to_all(received->slice(0, mine), sent, std::move(sends), std::move(recvs)).wait();
  for (size_t i = 0; i < a.segments.size(); ++i) {
    const IndexRange& s = a.segments[i];
    const int64_t begin = std::max(s.first, rank * n), end = std::min(s.first + s.count, (rank + 1) * n);
    if (begin >= end) continue;
    const int64_t at = a.places[i] + begin - s.first - below(rank);
    const Tensor to = part.slice(begin - rank * n, end - begin), from = received->slice(at, end - begin);
    // The sum of the rest counts the gradients of these elements as 0, but has added their errors.
    env_->formats.feedback > 0 ? env_->ops->accumulate({to, from}) : env_->ops->copy({to, from});
  }
}

ShardExchange::Pending ShardExchange::start_reduce_scatter(const Tensor& part, const Tensor& whole,
                                                           const Tensor& errors) const {
  return start_sum(part, whole, formats_of_sums(), *env_->arena, errors);
}

// Memory in which a sum with parts allocates, as it takes more or less with other parts.
struct ShardExchange::Workspace {
  explicit Workspace(ArenaTensor t)
      : block(std::move(t)),
        arena(std::shared_ptr<std::byte>(std::shared_ptr<void>(), static_cast<std::byte*>(block->data)),
              block->bytes()) {}
  ArenaTensor block;
  Arena arena;
};

ShardExchange::Pending ShardExchange::start_reduce_scatter(const Tensor& part, const Tensor& whole,
                                                           const std::vector<FormattedParts>& parts,
                                                           int64_t most_segments, const Tensor& errors) const {
  if (data_->size() == 1) return start_reduce_scatter(part, whole);
  const auto size = static_cast<int64_t>(bytes_with_parts(whole.elements(), whole.dtype, most_segments));
  const auto workspace = std::make_shared<Workspace>(env_->arena->alloc(DType::u8, {size}, MemoryClass::gradients));
  Arena& arena = workspace->arena;
  std::span<const FormattedParts> apart_from_rest = parts;
  SumFormats rest = formats_of_sums();
  if (!parts.empty() && elements_of(parts[0].segments) == whole.elements()) {
    rest = {parts[0].format, parts[0].format};
    apart_from_rest = apart_from_rest.subspan(1);
    FP_CHECK(rest.last ? rest.last->bits == 8 : apart_from_rest.empty(),
             "a sum in {} bits (0: not quantized) with {} parts in other formats; only one in 8 bits may have some",
             rest.last ? rest.last->bits : 0, apart_from_rest.size());
  }
  const auto apart = std::make_shared<std::vector<SumApart>>();
  for (const FormattedParts& f : apart_from_rest) apart->push_back(set_apart(f, whole, arena));
  Pending p = start_sum(part, whole, rest, arena, rest.last ? errors : Tensor());
  p.workspace_ = workspace;
  if (apart->empty()) return p;
  for (size_t i = 0; i < apart->size(); ++i) {
    SumApart& a = (*apart)[i];
    const std::optional<BlockFormat>& format = apart_from_rest[i].format;
    a.sum = start_sum(a.part, *a.memory, {format, format}, arena);
  }
  if (p.second_)
    p.second_ = [apart, second = std::move(p.second_)] {
      Request request = second();
      for (SumApart& a : *apart) a.sum.advance();
      return request;
    };
  p.finish_ = [this, part, apart, &arena, finish = std::move(p.finish_)] {
    if (finish) finish();
    for (SumApart& a : *apart) {
      a.sum.wait();
      deliver(a, part, arena);
    }
  };
  return p;
}

// Returns at least what start_sum() allocates for this many elements, until the sum is complete.
size_t ShardExchange::bytes_of_sum(int64_t elements, DType t, const SumFormats& f, bool with_errors) const {
  const int64_t ranks = data_->size(), n = (elements + ranks - 1) / ranks;
  const int64_t nodes = across_nodes_ != nullptr ? across_nodes_->size() : 1;
  const int64_t rows_with_errors = !with_errors ? 0 : across_nodes_ != nullptr ? nodes : ranks;
  if (f.last)
    return static_cast<size_t>(rows_with_errors * n) * sizeof(float) +
           static_cast<size_t>(2 * ranks * std::max(packed_bytes(*f.last, n), packed_bytes(*f.in_node, n)) +
                               2 * nodes * packed_bytes(*f.last, n));
  return through_nodes() ? static_cast<size_t>(nodes * n) * 2 * size_of(t) + static_cast<size_t>(n) * sizeof(float) : 0;
}

// The sum itself, in the format that takes most; a quarter of it apart, the same; and what is sent on.
size_t ShardExchange::bytes_with_parts(int64_t elements, DType t, int64_t most_segments) const {
  constexpr size_t kRounding = 32 * Arena::kAlignment;  // of all of its tensors
  BlockFormat eight = *env_->formats.gradients;
  eight.bits = 8;
  const int64_t filling = most_segments * eight.block,  // up to the begins of blocks
      apart = elements / kLargestShareOfParts + filling + data_->size() * eight.block;
  const bool with_errors = env_->formats.feedback > 0;
  const size_t sum = std::max({bytes_of_sum(elements, t, formats_of_sums(), with_errors),
                               bytes_of_sum(elements, t, {eight, eight}, with_errors), bytes_of_sum(elements, t, {})}),
               of_parts = std::max(bytes_of_sum(apart, t, {eight, eight}), bytes_of_sum(apart, t, {}));
  return sum + of_parts + static_cast<size_t>(apart + elements / data_->size() + filling) * size_of(t) + kRounding;
}

}  // namespace fp
