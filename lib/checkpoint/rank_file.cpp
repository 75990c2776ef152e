#include "checkpoint/rank_file.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/filesystem.h"
#include "base/progress.h"
#include "checkpoint/host_view.h"
#include "checkpoint/storage.h"

namespace fp {
namespace {

std::vector<uint64_t> numbers(const Shape& s) {
  std::vector<uint64_t> n;
  for (int i = 0; i < s.rank(); ++i) n.push_back(static_cast<uint64_t>(s[i]));
  return n;
}

class StoreBlocks : public BlockSource {
 public:
  StoreBlocks(const ParamStore& store, Ops& ops) : store_(store), ops_(ops) {}
  bool has(StateKind kind) const override { return store_.has(kind); }
  const float* read(const StateBlock& b) override {
    return host_view(ops_, store_.state(b.kind, {b.id, b.fragment.offset, b.fragment.count.elements()}), host_);
  }

 private:
  const ParamStore& store_;
  Ops& ops_;
  std::vector<float> host_;
};

class ReaderBlocks : public BlockSource {
 public:
  ReaderBlocks(const ParamTable& table, TensorReader& reader) : table_(table), reader_(reader) {}
  bool has(StateKind kind) const override { return kind == StateKind::param; }
  const float* read(const StateBlock& b) override {
    host_.resize(static_cast<size_t>(b.fragment.count.elements()));
    reader_.read(table_[b.id].name, b.kind, box_of(b.fragment), host_.data(), dense_window(b.fragment));
    return host_.data();
  }

 private:
  const ParamTable& table_;
  TensorReader& reader_;
  std::vector<float> host_;
};

// Has the kernel begin to write what it holds of a file, without waiting: the disk works while more is computed.
class Writeback {
 public:
  explicit Writeback(int fd) : fd_(fd) {}
  void wrote(int64_t bytes) {
    constexpr int64_t kEvery = int64_t{32} << 20;
    if ((pending_ += bytes) >= kEvery) start();
  }
  void start() {
    ::sync_file_range(fd_, 0, 0, SYNC_FILE_RANGE_WRITE);  // a hint: what counts is the sync at the end
    pending_ = 0;
  }

 private:
  int fd_;
  int64_t pending_ = 0;
};

// A fragment of a kind of a parameter, as it is written.
struct OpenFragment {
  Fragment box;
  h5::Dataset dataset;
  std::string name;
  uint64_t print = 0;
};

// Streams one kind of one parameter into its fragments.
void write_kind(h5::File& file, const std::filesystem::path& path, const Param& p, BlockSource& source, ParamId id,
                StateKind kind, const std::vector<Fragment>& owned, Writeback& writeback) {
  std::vector<OpenFragment> fragments;
  for (const Fragment& f : owned) {
    const std::string name = fmt::format("{}/{}/{}", p.name, name_of(kind), fragments.size());
    fragments.push_back({f, file.create_dataset(name, f.count), name});
  }
  for (OpenFragment& open : fragments)
    for (const Fragment& f : chunks(open.box, kBlockElements)) {
      const float* data = source.read({id, kind, f});
      open.print += fingerprint(p.shape, box_of(f), data, dense_window(f));
      h5::Box inside = box_of(f);  // the fragment's own coordinates
      for (int i = 0; i < inside.start.rank(); ++i) inside.start[i] -= open.box.start[i];
      storage::announce(storage::Step::write, path);
      open.dataset.write(inside, data, dense_window(f));
      writeback.wrote(f.count.elements() * static_cast<int64_t>(sizeof(float)));
      progress();
    }
  for (const OpenFragment& f : fragments) {
    file.set_attribute(f.name, "start", numbers(f.box.start));
    file.set_attribute(f.name, "fingerprint", {&f.print, 1});
  }
}

}  // namespace

void for_each_block(const ParamTable& table, const std::function<bool(StateKind)>& has,
                    const std::function<void(const StateBlock&)>& visit) {
  for (ParamId id = 0; id < static_cast<ParamId>(table.size()); ++id) {
    const std::vector<Fragment> owned = table.owned(id);
    for (const StateKind kind : kStateKinds)
      if (has(kind))
        for (const Fragment& whole : owned)
          for (const Fragment& f : chunks(whole, kBlockElements)) visit({id, kind, f});
  }
}

std::unique_ptr<BlockSource> blocks_of(const ParamStore& store, Ops& ops) {
  return std::make_unique<StoreBlocks>(store, ops);
}

std::unique_ptr<BlockSource> blocks_of(const ParamTable& table, TensorReader& reader) {
  return std::make_unique<ReaderBlocks>(table, reader);
}

CheckpointFile write_rank_file(const std::filesystem::path& folder, const ParamTable& table, BlockSource& source,
                               int rank) {
  const std::filesystem::path path = folder / fmt::format("rank-{:05d}.h5", rank);
  storage::announce(storage::Step::create_file, path);
  h5::File file = h5::File::create(path);
  Writeback writeback(file.descriptor());
  for (ParamId id = 0; id < static_cast<ParamId>(table.size()); ++id) {
    const Param& p = table[id];
    FP_CHECK(p.name.find_first_of("/%") == std::string::npos, "{}: not a name for a parameter", p.name);
    const std::vector<Fragment> owned = table.owned(id);
    if (owned.empty()) continue;
    for (const StateKind kind : kStateKinds)
      if (source.has(kind)) write_kind(file, path, p, source, id, kind, owned, writeback);
    const uint64_t order = static_cast<uint64_t>(id);
    file.set_attribute(p.name, "shape", numbers(p.shape));
    file.set_attribute(p.name, "order", {&order, 1});
  }
  storage::announce(storage::Step::close, path);
  writeback.start();  // goes on while the hash is taken
  file.close();
  const CheckpointFile record = record_of(path);
  storage::sync(path);
  return record;
}

CheckpointFile record_of(const std::filesystem::path& path) {
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(path, error);
  if (error) throw DataError(fmt::format("{}: cannot be examined: {}", path.string(), error.message()));
  return {path.filename().string(), bytes, hash_file(path)};
}

}  // namespace fp
