#include "checkpoint/fill.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/parallel.h"
#include "base/progress.h"
#include "checkpoint/host_view.h"

namespace fp {
namespace {

// Elements that a thread reads at a time: they are still in its cache when their fingerprint is taken.
constexpr int64_t kPerThread = int64_t{1} << 18;  // 1 MiB

// A part of a parameter, and whether this rank answers for it.
struct Piece {
  ParamPart part;
  bool owned = false;
};

// The part in pieces that are owned or not, as a whole.
std::vector<Piece> pieces_of(const ParamTable& table, const ParamPart& part) {
  std::vector<Segment> owned;  // of the local tensor
  for (const Fragment& f : table.owned(part.id)) owned.push_back({f.offset, f.count.elements()});
  std::ranges::sort(owned, {}, &Segment::offset);
  std::vector<Piece> pieces;
  int64_t at = part.first;
  const auto up_to = [&](int64_t end, bool is_owned) {
    end = std::min(end, part.first + part.count);
    if (end > at) pieces.push_back({{part.id, at, end - at}, is_owned});
    at = std::max(at, end);
  };
  for (const Segment& s : owned) {
    up_to(s.offset, false);
    up_to(s.offset + s.count, true);
  }
  up_to(part.first + part.count, false);
  return pieces;
}

class Filler {
 public:
  Filler(ParamStore& store, Ops& ops, TensorReader& reader)
      : store_(store), table_(store.table()), ops_(ops), reader_(reader), prints_(table_.size()) {}

  void fill(const ParamUnit& unit, std::span<const StateKind> kinds) {
    std::array<std::vector<ParamPart>, kStateKinds.size()> parts;
    for (const StateKind kind : kinds) parts[index(kind)] = table_.parts(unit, !store_.sharded(kind));
    for (ParamId id = unit.first; id <= unit.last; ++id)
      for (const StateKind kind : kinds)
        for (const ParamPart& part : parts[index(kind)])
          if (part.id == id) fill(part, kind);
    for (const StateKind kind : kinds) clear_rest(unit, kind);
  }
  Fingerprints take_prints() { return std::move(prints_); }

 private:
  static size_t index(StateKind kind) { return static_cast<size_t>(kind); }

  void fill(const ParamPart& part, StateKind kind) {
    const Param& p = table_[part.id];
    uint64_t& print = prints_[static_cast<size_t>(part.id)][kind];
    for (const Piece& piece : pieces_of(table_, part))
      for (const Fragment& whole : table_.fragments_of(piece.part)) {
        for (const Fragment& f : chunks(whole, kPerThread * max_threads())) {
          const float* values = fill(p.name, kind, f, store_.state(kind, {part.id, f.offset, f.count.elements()}));
          if (piece.owned) print += fingerprint(p.shape, box_of(f), values, dense_window(f));
          progress();
        }
        filled_[index(kind)].push_back({p.offset + whole.offset, whole.count.elements()});
      }
  }

  // Reads into `to`; where the numbers are now, until the next call.
  const float* fill(const std::string& name, StateKind kind, const Fragment& f, const Tensor& to) {
    float* const there = in_host_memory(ops_, to);
    if (there != nullptr) {
      reader_.read(name, kind, box_of(f), there, dense_window(f));
      return there;
    }
    ops_.synchronize();  // the host memory is used again
    host_.resize(static_cast<size_t>(f.count.elements()));
    reader_.read(name, kind, box_of(f), host_.data(), dense_window(f));
    copy_rounded(to);
    return host_.data();
  }

  // Copies the host values into a tensor, rounding to nearest even where it holds bf16.
  void copy_rounded(const Tensor& to) {
    if (to.dtype == DType::f32) return ops_.copy_in(to, host_.data());
    rounded_.resize(host_.size());
    std::ranges::transform(host_, rounded_.begin(), [](float x) { return bf16(x); });
    ops_.copy_in(to, rounded_.data());
  }

  // What has not been filled of a unit becomes 0.
  void clear_rest(const ParamUnit& unit, StateKind kind) {
    const Segment kept =
        store_.sharded(kind) ? table_.shard_of(unit, table_.shard()) : Segment{unit.offset, unit.elements};
    std::vector<Segment>& filled = filled_[index(kind)];
    std::ranges::sort(filled, {}, &Segment::offset);
    int64_t at = kept.offset;
    const auto clear_to = [&](int64_t end) {
      if (end > at) ops_.zero(store_.state(kind, Segment{at, end - at}));
    };
    for (const Segment& s : filled) {
      clear_to(s.offset);
      at = s.offset + s.count;
    }
    clear_to(kept.offset + kept.count);
    filled.clear();
  }

  ParamStore& store_;
  const ParamTable& table_;
  Ops& ops_;
  TensorReader& reader_;
  Fingerprints prints_;
  std::array<std::vector<Segment>, kStateKinds.size()> filled_;  // of the unit, by kind
  std::vector<float> host_;
  std::vector<bf16> rounded_;
};

}  // namespace

Fingerprints fill_store(ParamStore& store, Ops& ops, std::span<const StateKind> kinds, TensorReader& reader) {
  Filler filler(store, ops, reader);
  for (const ParamUnit& u : store.table().units()) filler.fill(u, kinds);
  ops.synchronize();
  return filler.take_prints();
}

}  // namespace fp
