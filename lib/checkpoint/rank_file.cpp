#include "checkpoint/rank_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "base/progress.h"
#include "checkpoint/read_back.h"
#include "checkpoint/stored_elements.h"
#include "io/filesystem.h"
#include "io/json.h"
#include "io/storage.h"
#include "model/host_view.h"

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
  bool has(ParamId, int slot) const override { return store_.has(slot); }
  const float* read(const StateBlock& b) override {
    return host_view(ops_, store_.state(b.slot, {b.id, b.fragment.offset, b.fragment.count.elements()}), host_);
  }

 private:
  const ParamStore& store_;
  Ops& ops_;
  std::vector<float> host_;
};

class ReaderBlocks : public BlockSource {
 public:
  ReaderBlocks(const ParamTable& table, TensorReader& reader) : table_(table), reader_(reader) {}
  bool has(ParamId, int slot) const override { return slot == kParamSlot; }
  const float* read(const StateBlock& b) override {
    host_.resize(static_cast<size_t>(b.fragment.count.elements()));
    reader_.read(table_[b.id].name, table_.slot_name(b.slot), b.fragment, host_.data(), dense_window(b.fragment));
    return host_.data();
  }

 private:
  const ParamTable& table_;
  TensorReader& reader_;
  std::vector<float> host_;
};

// Makes the kernel start writing dirty pages of a file without waiting, so that the disk works during computation.
class Writeback {
 public:
  explicit Writeback(int fd) : fd_(fd) {}
  void wrote(int64_t bytes) {
    constexpr int64_t kEvery = int64_t{32} << 20;
    if ((pending_ += bytes) >= kEvery) start();
  }
  void start() {
    ::sync_file_range(fd_, 0, 0, SYNC_FILE_RANGE_WRITE);  // only a hint; the sync at the end guarantees it
    pending_ = 0;
  }

 private:
  int fd_;
  int64_t pending_ = 0;
};

// Writes a rank's file: HDF5 creates the layout, and the values are written directly at their offsets.
class Writer {
 public:
  Writer(h5::File file, const ParamTable& table, BlockSource& source, int rank)
      : path_(file.path()),
        table_(table),
        source_(source),
        file_(std::move(file)),
        writeback_(file_.descriptor()),
        written_{rank, {}, {}} {
    for (ParamId id = 0; id < static_cast<ParamId>(table.size()); ++id) write(id);
  }

  // Reads back through the file's path, as all later readers will.
  RankFile close() {
    finish();
    written_.file = read_back(ReadableFile(path_, Symlinks::refuse), table_, written_.parts);
    storage::sync(path_);
    return std::move(written_);
  }
  // Reads back through the descriptor that was written to, and keeps it open.
  OpenRankFile close_but_hold() {
    FileDescriptor same(::fcntl(file_.descriptor(), F_DUPFD_CLOEXEC, 0));
    if (!same.is_open()) fail_file(path_, "keep open", errno);
    finish();
    written_.file = read_back(ReadableFile(same.get(), path_), table_, written_.parts);
    storage::sync(same.get(), path_);
    return {std::move(written_), std::move(same)};
  }

 private:
  void write(ParamId id) {
    if (table_.owned(id).empty() && table_.error_slot() < 0) return;
    FP_CHECK(table_[id].name.find_first_of("/%") == std::string::npos, "{}: not a name for a parameter",
             table_[id].name);
    bool any = false;
    for (int slot = 0; slot < table_.slot_count(); ++slot) {
      if (!table_.has_slot(id, slot) || !source_.has(id, slot)) continue;
      const std::vector<Fragment> owned = table_.owned(id, table_.shard(), slot);
      for (size_t i = 0; i < owned.size(); ++i) write(id, slot, static_cast<int>(i), owned[i]);
      any = any || !owned.empty();
    }
    if (any) file_.set_attribute(table_[id].name, "shape", numbers(table_[id].shape));
  }
  void finish() {
    storage::announce(storage::Step::close, path_);
    writeback_.start();  // continues while the file is read back
    file_.close();
  }
  void write(ParamId id, int slot, int number, const Fragment& whole) {
    WrittenPart part{id, slot, number, whole, 0, 0};
    const DType dtype = table_.slots()[static_cast<size_t>(slot)].dtype;
    h5::Dataset dataset =
        file_.create_dataset(dataset_name(table_[id].name, table_.slot_name(slot), number), whole.count, dtype);
    part.offset = dataset.file_offset();
    for (const Fragment& f : chunks(whole, kBlockElements)) {
      const float* data = source_.read({id, slot, f, dtype});
      part.fingerprint += fingerprint(table_[id].shape, f, data, dense_window(f));
      const int64_t elements = f.count.elements(), bytes = stored_bytes(elements, dtype);
      storage::announce(storage::Step::write, path_);
      write_at(file_.descriptor(), path_, to_stored(data, elements, dtype, narrow_), static_cast<size_t>(bytes),
               part.offset + stored_bytes(f.offset - whole.offset, dtype));
      writeback_.wrote(bytes);
      progress();
    }
    dataset.set_attribute("start", numbers(whole.start));
    written_.parts.push_back(part);
  }

  std::filesystem::path path_;
  const ParamTable& table_;
  BlockSource& source_;
  h5::File file_;
  Writeback writeback_;
  std::vector<bf16> narrow_;
  RankFile written_;
};

nlohmann::json to_json(const Shape& s) { return numbers(s); }

Shape shape_from(const nlohmann::json& list) {
  Shape s;
  for (const auto& d : list) s.push_back(d.get<int64_t>());
  return s;
}

}  // namespace

void for_each_block(const ParamTable& table, int shard, const std::function<bool(ParamId, int slot)>& has,
                    const std::function<void(const StateBlock&)>& visit) {
  for (ParamId id = 0; id < static_cast<ParamId>(table.size()); ++id) {
    for (int slot = 0; slot < table.slot_count(); ++slot)
      if (table.has_slot(id, slot) && has(id, slot))
        for (const Fragment& whole : table.owned(id, shard, slot))
          for (const Fragment& f : chunks(whole, kBlockElements))
            visit({id, slot, f, table.slots()[static_cast<size_t>(slot)].dtype});
  }
}

std::unique_ptr<BlockSource> blocks_of(const ParamStore& store, Ops& ops) {
  return std::make_unique<StoreBlocks>(store, ops);
}

std::unique_ptr<BlockSource> blocks_of(const ParamTable& table, TensorReader& reader) {
  return std::make_unique<ReaderBlocks>(table, reader);
}

std::string to_text(const RankFile& f) {
  nlohmann::json parts = nlohmann::json::array();
  for (const WrittenPart& p : f.parts)
    parts.push_back({p.id, p.slot, p.number, to_json(p.box.start), to_json(p.box.count), p.offset, p.fingerprint});
  return nlohmann::json{f.rank, f.file.name, f.file.bytes, f.file.xxh3, std::move(parts)}.dump();
}

RankFile rank_file_from(const std::string& text) {
  const nlohmann::json j = parse_json(text, "the file of a rank", kJsonOfRanks);
  RankFile f{j.at(0), {j.at(1), j.at(2), j.at(3)}, {}};
  for (const auto& p : j.at(4))
    f.parts.push_back({p.at(0), p.at(1), p.at(2), {shape_from(p.at(3)), shape_from(p.at(4))}, p.at(5), p.at(6)});
  return f;
}

OpenRankFile write_rank_file(h5::File file, const ParamTable& table, BlockSource& source, int rank) {
  return Writer(std::move(file), table, source, rank).close_but_hold();
}

RankFile write_rank_file(const std::filesystem::path& folder, const ParamTable& table, BlockSource& source, int rank) {
  const std::filesystem::path path = folder / rank_file_name(rank);
  storage::announce(storage::Step::create_file, path);
  return Writer(h5::File::create(path), table, source, rank).close();
}

RankFile write_rank_file(const std::filesystem::path& folder, const ParamStore& store, Ops& ops, int rank) {
  return write_rank_file(folder, store.table(), *blocks_of(store, ops), rank);
}

}  // namespace fp
