#include "checkpoint/consolidate.h"

#include <algorithm>
#include <utility>

#include "checkpoint/folder.h"
#include "checkpoint/inspect.h"
#include "checkpoint/rank_file.h"
#include "checkpoint/verify_hdf5.h"
#include "io/storage.h"

namespace fp {
namespace {

namespace fs = std::filesystem;

// Provides whole tensors of a checkpoint, of every state.
class TensorBlocks : public BlockSource {
 public:
  TensorBlocks(const Checkpoint& from, const ParamTable& table)
      : manifest_(from.manifest()), table_(table), reader_(from.tensors()) {}
  bool has(ParamId id, int slot) const override {
    return manifest_.parameters[static_cast<size_t>(id)].find(table_.slot_name(slot)) != nullptr;
  }
  const float* read(const StateBlock& b) override {
    host_.resize(static_cast<size_t>(b.fragment.count.elements()));
    reader_->read(table_[b.id].name, table_.slot_name(b.slot), b.fragment, host_.data(), dense_window(b.fragment));
    return host_.data();
  }

 private:
  const CheckpointManifest& manifest_;
  const ParamTable& table_;
  std::unique_ptr<TensorReader> reader_;
  std::vector<float> host_;
};

// Returns a table of whole parameters with the slots that any of them has in the checkpoint.
ParamTable table_of(const CheckpointManifest& manifest) {
  ParamTable whole;
  std::vector<StateSlot> slots;
  for (const CheckpointParam& p : manifest.parameters) {
    whole.add(p.name, p.shape, Partition::replicated(), {});
    // Inserts new slots so that the states of each parameter keep their order.
    auto after = slots.begin();
    for (const StoredState& s : p.states) {
      const auto known = std::ranges::find(slots, s.name, &StateSlot::name);
      after = 1 + (known != slots.end() ? known : slots.insert(after, {s.name, s.dtype}));
    }
  }
  if (!slots.empty()) whole.set_slots(std::move(slots));
  return whole;
}

// A hidden folder beside the final one, removed by the destructor.
struct HiddenFolder {
  explicit HiddenFolder(const fs::path& to) : path(to.parent_path() / (kHiddenPrefix + to.filename().string())) {}
  ~HiddenFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  HiddenFolder(const HiddenFolder&) = delete;
  HiddenFolder& operator=(const HiddenFolder&) = delete;
  fs::path path;
};

}  // namespace

void consolidate(const Checkpoint& from, const fs::path& to, const std::string& created_by) {
  const fs::path target = fs::absolute(to / ".").lexically_normal().parent_path();
  if (fs::exists(fs::symlink_status(target)))
    throw ConfigError(fmt::format("{}: exists already; choose another name", to.string()));
  const ParamTable whole = table_of(from.manifest());
  TensorBlocks blocks(from, whole);
  const TrainState state = from.state();
  const HiddenFolder staging(target);
  const fs::path hidden = begin_save(staging.path, state.step);
  const RankFile file = write_rank_file(hidden, whole, blocks, 0);
  const fs::path made = finish_save(hidden, whole, {file}, state, {created_by, Mesh(), 0});
  const Checkpoint copy = Checkpoint::open(made);
  if (copy.manifest().parameters != from.manifest().parameters)
    throw DataError(fmt::format("{}: the copy differs from the original", from.folder().string()));
  verify_tensors(copy);
  verify_with_hdf5(copy);  // trusted: this process wrote it
  storage::rename(made, target);
}

}  // namespace fp
