#include "comm/thread/moves.h"

#include <cstring>
#include <numeric>

#include "base/parallel.h"
#include "comm/host_reduce.h"

namespace fp {
namespace {

size_t place(int rank) { return static_cast<size_t>(rank); }

std::byte* at(const Tensor& x, int64_t element) {
  return static_cast<std::byte*>(x.data) + element * static_cast<int64_t>(size_of(x.dtype));
}

// Copies `count` elements of `from`, from `first` on, to `to` from `where` on, unless they are the same memory.
void move(const Tensor& to, int64_t where, const Tensor& from, int64_t first, int64_t count) {
  if (count == 0 || at(to, where) == at(from, first)) return;
  std::memcpy(at(to, where), at(from, first), static_cast<size_t>(count) * size_of(from.dtype));
}

int64_t before(const std::vector<int64_t>& counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0});
}

// Reduces elements [first, first + count) of all sources into `to` from `where` on.
void reduce(const Tensor& to, int64_t where, std::span<const CommCall> calls, int64_t first, int64_t count) {
  std::vector<const void*> sources;
  for (const CommCall& call : calls) sources.push_back(at(call.from, first));
  reduce_in_order(at(to, where), sources, count, to.dtype, calls[0].reduction);
}

void move_reduced(std::span<const CommCall> calls, int piece) {
  const Tensor& mine = calls[place(piece)].to;
  const IndexRange s = split_evenly(mine.elements(), static_cast<int>(calls.size()), piece);
  reduce(mine, s.first, calls, s.first, s.count);
  for (const CommCall& call : calls) move(call.to, s.first, mine, s.first, s.count);
}

void move_gathered(std::span<const CommCall> calls, int piece) {
  const Tensor& part = calls[place(piece)].from;
  for (const CommCall& call : calls) move(call.to, piece * part.elements(), part, 0, part.elements());
}

void move_exchanged(std::span<const CommCall> calls, int piece) {
  const CommCall& mine = calls[place(piece)];
  for (size_t r = 0; r < calls.size(); ++r)
    move(calls[r].to, before(calls[r].recvs, piece), mine.from, before(mine.sends, static_cast<int>(r)), mine.sends[r]);
}

bool exchange_fits(std::span<const CommCall> calls) {
  for (size_t from = 0; from < calls.size(); ++from)
    for (size_t to = 0; to < calls.size(); ++to)
      if (calls[from].sends[to] != calls[to].recvs[from]) return false;
  return true;
}

}  // namespace

void check_calls(const std::string& group, std::span<const CommCall> calls) {
  const CommCall& first = calls[0];
  if (first.kind == CommKind::send) {
    FP_CHECK(first.from.elements() == calls[1].to.elements() && first.from.dtype == calls[1].to.dtype,
             "group {}: {} of {} sent, {} of {} expected", group, first.from.shape.str(), name_of(first.from.dtype),
             calls[1].to.shape.str(), name_of(calls[1].to.dtype));
    return;
  }
  for (size_t r = 1; r < calls.size(); ++r) {
    const CommCall& call = calls[r];
    FP_CHECK(call.kind == first.kind && call.reduction == first.reduction && call.peer == first.peer &&
                 call.from.dtype == first.from.dtype &&
                 (call.kind == CommKind::all_to_all || call.from.elements() == first.from.elements()),
             "group {}: {} of {} on rank 0, {} of {} on rank {}", group, name_of(first.kind), first.from.shape.str(),
             name_of(call.kind), call.from.shape.str(), r);
  }
  FP_CHECK(first.kind != CommKind::all_to_all || exchange_fits(calls), "group {}: all_to_all does not add up", group);
}

int pieces_of(std::span<const CommCall> calls) {
  return calls[0].kind == CommKind::send ? 1 : static_cast<int>(calls.size());
}

void move_piece(std::span<const CommCall> calls, int piece) {
  const CommCall& mine = calls[place(piece)];
  switch (mine.kind) {
    case CommKind::all_reduce:
      return move_reduced(calls, piece);
    case CommKind::all_gather:
      return move_gathered(calls, piece);
    case CommKind::reduce_scatter:
      return reduce(mine.to, 0, calls, piece * mine.to.elements(), mine.to.elements());
    case CommKind::all_to_all:
      return move_exchanged(calls, piece);
    case CommKind::broadcast:
      return move(mine.to, 0, calls[place(mine.peer)].from, 0, mine.to.elements());
    case CommKind::send:
    case CommKind::recv:
      return move(calls[1].to, 0, calls[0].from, 0, calls[0].from.elements());
    case CommKind::host:
      break;
  }
  throw InternalError("host values are sent as messages");
}

}  // namespace fp
