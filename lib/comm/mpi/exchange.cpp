#include "comm/mpi/exchange.h"

#include <cstring>
#include <numeric>

#include "comm/host_reduce.h"

namespace fp {
namespace {

struct Place {
  int rank, size;
};

std::byte* at(const Tensor& x, int64_t element) {
  return static_cast<std::byte*>(x.data) + element * static_cast<int64_t>(size_of(x.dtype));
}

int64_t bytes(const Tensor& x, int64_t elements) { return elements * static_cast<int64_t>(size_of(x.dtype)); }

// Calls make(peer) for all other ranks; each rank begins with a different one.
template <class Make>
void each_peer(Place p, Make&& make) {
  for (int k = 1; k < p.size; ++k) make((p.rank + k) % p.size);
}

void copy_own(const Tensor& to, int64_t where, const Tensor& from, int64_t first, int64_t count) {
  if (count > 0 && at(to, where) != at(from, first))
    std::memcpy(at(to, where), at(from, first), static_cast<size_t>(bytes(from, count)));
}

// Sums the pieces of the others in scratch, `count` elements each in rank order, and this rank's at `own`.
void sum_scratch(const CommCall& c, Place p, std::byte* to, std::byte* own, std::byte* scratch, int64_t count) {
  std::vector<const void*> sources;
  for (int r = 0; r < p.size; ++r) {
    sources.push_back(r == p.rank ? own : scratch);
    if (r != p.rank) scratch += bytes(c.from, count);
  }
  reduce_in_order(to, sources, count, c.from.dtype, c.reduction);
}

// Sends piece share(r) to each rank r, and receives the pieces of the others in scratch.
template <class ShareOf>
ExchangePhase scatter_to_scratch(const CommCall& c, Place p, std::byte* scratch, ShareOf&& share) {
  ExchangePhase phase;
  const int64_t mine = bytes(c.from, share(p.rank).count);
  each_peer(p, [&](int r) {
    phase.messages.push_back({true, r, at(c.from, share(r).first), bytes(c.from, share(r).count)});
    phase.messages.push_back({false, r, scratch + (r - (r > p.rank ? 1 : 0)) * mine, mine});
  });
  return phase;
}

// Sends this rank's piece of x to all others except `root`, which has it already, and receives theirs.
ExchangePhase pass_on(const Tensor& x, Place p, int root) {
  ExchangePhase phase;
  const IndexRange mine = split_evenly(x.elements(), p.size, p.rank);
  each_peer(p, [&](int r) {
    const IndexRange theirs = split_evenly(x.elements(), p.size, r);
    if (r != root) phase.messages.push_back({true, r, at(x, mine.first), bytes(x, mine.count)});
    if (p.rank != root) phase.messages.push_back({false, r, at(x, theirs.first), bytes(x, theirs.count)});
  });
  return phase;
}

std::vector<ExchangePhase> all_reduce(const CommCall& c, Place p, std::byte* scratch) {
  const auto share = [=](int r) { return split_evenly(c.to.elements(), p.size, r); };
  std::vector<ExchangePhase> phases{scatter_to_scratch(c, p, scratch, share), pass_on(c.to, p, -1)};
  phases[1].prepare = [=, mine = share(p.rank)] {
    sum_scratch(c, p, at(c.to, mine.first), at(c.to, mine.first), scratch, mine.count);
  };
  return phases;
}

std::vector<ExchangePhase> reduce_scatter(const CommCall& c, Place p, std::byte* scratch) {
  const int64_t n = c.to.elements();
  const auto share = [=](int r) { return IndexRange{r * n, n}; };
  return {scatter_to_scratch(c, p, scratch, share),
          {[=] { sum_scratch(c, p, at(c.to, 0), at(c.from, p.rank * n), scratch, n); }, {}}};
}

std::vector<ExchangePhase> all_gather(const CommCall& c, Place p) {
  const int64_t n = c.from.elements();
  ExchangePhase phase;
  phase.prepare = [=] { copy_own(c.to, p.rank * n, c.from, 0, n); };
  each_peer(p, [&](int r) {
    phase.messages.push_back({true, r, at(c.from, 0), bytes(c.from, n)});
    phase.messages.push_back({false, r, at(c.to, r * n), bytes(c.to, n)});
  });
  return {phase};
}

std::vector<ExchangePhase> all_to_all(const CommCall& c, Place p) {
  const auto before = [](const std::vector<int64_t>& counts, int r) {
    return std::accumulate(counts.begin(), counts.begin() + r, int64_t{0});
  };
  ExchangePhase phase;
  phase.prepare = [=] {
    copy_own(c.to, before(c.recvs, p.rank), c.from, before(c.sends, p.rank), c.sends[static_cast<size_t>(p.rank)]);
  };
  each_peer(p, [&](int r) {
    const auto i = static_cast<size_t>(r);
    phase.messages.push_back({true, r, at(c.from, before(c.sends, r)), bytes(c.from, c.sends[i])});
    phase.messages.push_back({false, r, at(c.to, before(c.recvs, r)), bytes(c.to, c.recvs[i])});
  });
  return {phase};
}

std::vector<ExchangePhase> broadcast(const CommCall& c, Place p) {
  ExchangePhase scatter;
  const auto piece = [&](bool send, int peer, int r) {
    const IndexRange s = split_evenly(c.to.elements(), p.size, r);
    scatter.messages.push_back({send, peer, at(c.to, s.first), bytes(c.to, s.count)});
  };
  if (p.rank == c.peer)
    each_peer(p, [&](int r) { piece(true, r, r); });
  else
    piece(false, c.peer, p.rank);
  return {scatter, pass_on(c.to, p, c.peer)};
}

}  // namespace

std::vector<ExchangePhase> phases_of(const CommCall& c, int rank, int size, std::byte* scratch) {
  const Place p{rank, size};
  switch (c.kind) {
    case CommKind::all_reduce:
      return all_reduce(c, p, scratch);
    case CommKind::all_gather:
      return all_gather(c, p);
    case CommKind::reduce_scatter:
      return reduce_scatter(c, p, scratch);
    case CommKind::all_to_all:
      return all_to_all(c, p);
    case CommKind::broadcast:
      return broadcast(c, p);
    case CommKind::send:
      return {{{}, {{true, c.peer, at(c.from, 0), bytes(c.from, c.from.elements())}}}};
    case CommKind::recv:
      return {{{}, {{false, c.peer, at(c.to, 0), bytes(c.to, c.to.elements())}}}};
    case CommKind::host:
      break;
  }
  throw InternalError("host values are not exchanged in phases");
}

}  // namespace fp
