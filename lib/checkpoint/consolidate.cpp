#include "checkpoint/consolidate.h"

#include "checkpoint/folder.h"
#include "checkpoint/inspect.h"
#include "checkpoint/rank_file.h"
#include "checkpoint/verify_hdf5.h"
#include "io/storage.h"

namespace fp {
namespace {

namespace fs = std::filesystem;

// Provides whole tensors of a checkpoint, weights and moments.
class TensorBlocks : public BlockSource {
 public:
  TensorBlocks(const Checkpoint& from, const ParamTable& table)
      : moments_(from.manifest().has_moments()), table_(table), reader_(from.tensors()) {}
  bool has(StateKind kind) const override { return moments_ || kind == StateKind::param; }
  const float* read(const StateBlock& b) override {
    host_.resize(static_cast<size_t>(b.fragment.count.elements()));
    reader_->read(table_[b.id].name, b.kind, box_of(b.fragment), host_.data(), dense_window(b.fragment));
    return host_.data();
  }

 private:
  bool moments_;
  const ParamTable& table_;
  std::unique_ptr<TensorReader> reader_;
  std::vector<float> host_;
};

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
  ParamTable whole;
  for (const CheckpointParam& p : from.manifest().parameters) whole.add(p.name, p.shape, Partition::replicated(), {});
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
