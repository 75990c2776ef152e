#include "exec/state_stream.h"

#include <algorithm>

namespace fp {
namespace {

constexpr int64_t kCut = 8;  // parts of a parameter begin at multiples of this

// Collects parts of a unit's parameters in pieces of at most `limit` elements.
class Cutter {
 public:
  Cutter(const ParamTable& table, int unit, int64_t limit, std::vector<StatePiece>& pieces)
      : table_(table), unit_(unit), limit_(limit / kCut * kCut), differ_(table.slots_differ()), pieces_(pieces) {
    FP_CHECK(limit_ > 0, "pieces of {} elements", limit);
  }
  ~Cutter() { close(); }

  void add(const ParamPart& whole) {
    for (int64_t done = 0; done < whole.count;) {
      const int64_t at = table_[whole.id].offset + whole.first + done;
      if (!piece_.parts.empty() && piece_.slots != slots_of(whole.id)) close();
      const int64_t space = piece_.parts.empty() ? limit_ : piece_.range.offset + limit_ - at;
      int64_t count = std::min(whole.count - done, space);
      if (count < whole.count - done) count -= (whole.first + done + count) % kCut;
      if (count <= 0) {
        close();
        continue;
      }
      if (piece_.parts.empty()) {
        piece_.range.offset = at;
        piece_.slots = slots_of(whole.id);
      }
      piece_.range.count = at + count - piece_.range.offset;
      piece_.parts.push_back({whole.id, whole.first + done, count});
      done += count;
    }
  }

 private:
  StatePiece::Slots slots_of(ParamId id) const {
    return differ_ && table_[id].matrix ? StatePiece::Slots::states : StatePiece::Slots::all;
  }
  void close() {
    if (piece_.parts.empty()) return;
    piece_.unit = unit_;
    pieces_.push_back(std::move(piece_));
    piece_ = {};
  }

  const ParamTable& table_;
  int unit_;
  int64_t limit_;
  bool differ_;
  std::vector<StatePiece>& pieces_;
  StatePiece piece_;
};

bool has_host_slots(const ParamTable& table) {
  return std::ranges::any_of(table.slots(), [](const StateSlot& s) { return s.residence == Residence::host; });
}

}  // namespace

std::vector<StatePiece> state_pieces(const ParamStore& store) {
  const ParamTable& table = store.table();
  const bool streams = has_host_slots(table);
  std::vector<StatePiece> pieces;
  for (size_t u = 0; u < table.units().size(); ++u) {
    const ParamUnit& unit = table.units()[u];
    if (!streams) {
      pieces.push_back({static_cast<int>(u), store.kept_range(unit), store.kept(unit)});
      continue;
    }
    Cutter cutter(table, static_cast<int>(u), store.options().state_piece, pieces);
    for (const ParamPart& p : store.kept(unit)) cutter.add(p);
  }
  return pieces;
}

int64_t largest_piece(const ParamStore& store) {
  int64_t largest = 0;
  for (const ParamUnit& u : store.table().units()) largest = std::max(largest, store.kept_range(u).count);
  return has_host_slots(store.table()) ? std::min(largest, store.options().state_piece) : largest;
}

int64_t most_parts(const ParamStore& store) {
  const ParamTable& table = store.table();
  const int64_t shortest = store.options().state_piece / kCut * kCut - kCut + 1;  // piece that ends within a parameter
  int64_t parts = 0;
  for (const ParamUnit& u : table.units()) {
    parts += u.last - u.first + 1;
    if (has_host_slots(table)) parts += store.kept_range(u).count / shortest;
  }
  return parts;
}

void append_master_pieces(const ParamStore& store, const ParamPart& part, std::vector<StatePiece>& pieces) {
  const ParamTable& table = store.table();
  const size_t first = pieces.size();
  if (table.slots()[kParamSlot].residence == Residence::host)
    Cutter(table, table.unit_of(part.id), store.options().state_piece, pieces).add(part);
  else
    pieces.push_back({table.unit_of(part.id), {table[part.id].offset + part.first, part.count}, {part}});
  for (size_t i = first; i < pieces.size(); ++i) pieces[i].slots = StatePiece::Slots::param;
}

namespace {

Tensor& slot_of(UpdateTensors& t, size_t slot) { return slot == kParamSlot ? t.param : t.states[slot - 1]; }

bool takes(StatePiece::Slots slots, size_t slot) {
  return slots == StatePiece::Slots::all || (slots == StatePiece::Slots::param) == (slot == kParamSlot);
}

}  // namespace

bool StateStream::passes(int slot) const {
  return env_->params->table().slots()[static_cast<size_t>(slot)].residence == Residence::host;
}

StateStream::StateStream(const ModelEnv& env, const std::vector<StatePiece>& pieces, StatePiece::Slots slots)
    : env_(&env), pieces_(&pieces) {
  const ParamTable& table = env.params->table();
  if (!has_host_slots(table)) return;
  const int64_t largest = largest_piece(*env.params);
  buffers_.resize(kBuffers);
  for (Buffer& b : buffers_) {
    b.slots.resize(table.slots().size());
    for (size_t s = 0; s < b.slots.size(); ++s)
      if (passes(static_cast<int>(s)) && takes(slots, s))
        b.slots[s] = env.arena->alloc(table.slots()[s].dtype, {largest}, MemoryClass::optimizer);
  }
}

StateStream::~StateStream() {
  try {
    finish();
  } catch (...) {  // another error ends the run; the buffers must still outlive the copies
  }
}

template <class Use>
void StateStream::for_each_passing(size_t i, const Use& use) {
  const Buffer& b = buffer_of(i);
  UpdateTensors home = at_home(i);
  for (size_t s = 0; s < b.slots.size(); ++s) {
    const Tensor& tensor = slot_of(home, s);
    if (b.slots[s] && takes((*pieces_)[i].slots, s) && tensor.elements() > 0)
      use(s, b.slots[s]->slice(0, tensor.elements()), tensor);
  }
}

void StateStream::fetch(size_t i) {
  Buffer& b = buffer_of(i);
  for_each_passing(i, [&](size_t, const Tensor& buffer, const Tensor& home) {
    b.filled = env_->ops->copies().start(buffer, home, b.emptied);
  });
}

UpdateTensors StateStream::take(size_t i) {
  UpdateTensors t = at_home(i);
  if (buffers_.empty()) return t;
  if (i == 0) fetch(0);
  if (i + 1 < pieces_->size() && buffers_.size() > 1) fetch(i + 1);
  env_->ops->copies().wait(buffer_of(i).filled);
  for_each_passing(i, [&](size_t s, const Tensor& buffer, const Tensor&) { slot_of(t, s) = buffer; });
  return t;
}

void StateStream::put_back(size_t i) {
  if (buffers_.empty()) return;
  Buffer& b = buffer_of(i);
  for_each_passing(i, [&](size_t, const Tensor& buffer, const Tensor& home) {
    b.emptied = env_->ops->copies().start(home, buffer);
  });
}

void StateStream::finish() {
  for (const Buffer& b : buffers_) {
    env_->ops->copies().wait(b.filled);
    env_->ops->copies().wait(b.emptied);
  }
}

}  // namespace fp
