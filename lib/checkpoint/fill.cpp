#include "checkpoint/fill.h"

#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "base/progress.h"
#include "checkpoint/read_ahead.h"
#include "model/host_view.h"

namespace fp {
namespace {

// Elements that a thread reads at a time: they are still in its cache when their fingerprint is taken.
constexpr int64_t kPerThread = int64_t{1} << 18;  // 1 MiB

// A box of a parameter that is read at once, and whether this rank owns it.
struct Piece {
  ParamId id;
  int slot;
  Fragment fragment;
  bool owned = false;
};

// Appends the part as pieces, each of which is owned entirely or not at all.
void add_pieces(const ParamTable& table, const ParamPart& part, int slot, std::vector<Piece>& pieces) {
  std::vector<IndexRange> owned;  // of the local tensor
  for (const Fragment& f : table.owned(part.id, table.shard(), slot)) owned.push_back({f.offset, f.count.elements()});
  std::ranges::sort(owned, {}, &IndexRange::first);
  int64_t at = part.first;
  const auto up_to = [&](int64_t end, bool is_owned) {
    end = std::min(end, part.first + part.count);
    if (end > at)
      for (const Fragment& whole : table.fragments_of({part.id, at, end - at}))
        for (const Fragment& f : chunks(whole, kPerThread * max_threads()))
          pieces.push_back({part.id, slot, f, is_owned});
    at = std::max(at, end);
  };
  for (const IndexRange& s : owned) {
    up_to(s.first, false);
    up_to(s.first + s.count, true);
  }
  up_to(part.first + part.count, false);
}

class Filler {
 public:
  Filler(ParamStore& store, Ops& ops, TensorReader& reader)
      : store_(store),
        table_(store.table()),
        ops_(ops),
        reader_(reader),
        prints_(table_.size()),
        filled_(store.table().slots().size()) {}

  void fill(const ParamUnit& unit, std::span<const int> slots) {
    const std::vector<Piece> pieces = in_order(unit, slots);
    std::vector<ReadJob> jobs;
    for (const Piece& p : pieces)
      jobs.push_back({table_[p.id].name, table_.slot_name(p.slot), p.fragment, in_host_memory(ops_, tensor_of(p))});
    ReadAhead numbers(reader_, std::move(jobs));
    for (const Piece& p : pieces) {
      take(p, numbers.next());
      progress();
    }
    for (const int slot : slots) clear_rest(unit, slot);
  }
  Fingerprints take_prints() { return std::move(prints_); }

 private:
  static size_t index(int slot) { return static_cast<size_t>(slot); }

  // The pieces of a unit, in the order of rank files.
  std::vector<Piece> in_order(const ParamUnit& unit, std::span<const int> slots) const {
    std::vector<Piece> pieces;
    std::vector<std::vector<ParamPart>> parts(filled_.size());
    for (const int slot : slots)
      parts[index(slot)] = store_.sharded(slot) ? table_.parts_of_slot(unit, slot) : table_.parts(unit, true);
    for (ParamId id = unit.first; id <= unit.last; ++id)
      for (const int slot : slots)
        for (const ParamPart& part : parts[index(slot)])
          if (part.id == id && table_.has_slot(id, slot)) add_pieces(table_, part, slot, pieces);
    return pieces;
  }
  Tensor tensor_of(const Piece& p) const {
    return store_.state(p.slot, {p.id, p.fragment.offset, p.fragment.count.elements()});
  }

  void take(const Piece& piece, const float* values) {
    const Param& p = table_[piece.id];
    const Fragment& f = piece.fragment;
    const Tensor to = tensor_of(piece);
    if (values != in_host_memory(ops_, to)) copy_rounded(ops_, to, values);
    if (piece.owned)
      prints_[static_cast<size_t>(piece.id)][table_.slot_name(piece.slot)] +=
          fingerprint(p.shape, f, values, dense_window(f));
    filled_[index(piece.slot)].push_back({p.offset + f.offset, f.count.elements()});
  }

  // Zeroes the elements of a unit that have not been filled.
  void clear_rest(const ParamUnit& unit, int slot) {
    std::vector<IndexRange>& filled = filled_[index(slot)];
    std::ranges::sort(filled, {}, &IndexRange::first);
    auto next = filled.begin();
    for (const IndexRange& kept : store_.ranges(slot, unit)) {
      int64_t at = kept.first;
      const auto clear_to = [&](int64_t end) {
        if (end > at) zero_tensor(ops_, store_.state(slot, IndexRange{at, end - at}));
      };
      for (; next != filled.end() && next->first < kept.first + kept.count; ++next) {
        clear_to(next->first);
        at = next->first + next->count;
      }
      clear_to(kept.first + kept.count);
    }
    filled.clear();
  }

  ParamStore& store_;
  const ParamTable& table_;
  Ops& ops_;
  TensorReader& reader_;
  Fingerprints prints_;
  std::vector<std::vector<IndexRange>> filled_;  // of the unit, by slot
};

}  // namespace

Fingerprints fill_store(ParamStore& store, Ops& ops, std::span<const int> slots, TensorReader& reader) {
  Filler filler(store, ops, reader);
  for (const ParamUnit& u : store.table().units()) filler.fill(u, slots);
  ops.synchronize();
  return filler.take_prints();
}

}  // namespace fp
