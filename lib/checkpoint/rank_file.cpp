#include "checkpoint/rank_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/filesystem.h"
#include "base/progress.h"
#include "checkpoint/raw_bytes.h"
#include "checkpoint/read_back.h"
#include "checkpoint/storage.h"
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

// A rank's file while it is written: HDF5 lays it out, the numbers go straight to their places.
class Writer {
 public:
  Writer(const std::filesystem::path& folder, const ParamTable& table, BlockSource& source, int rank)
      : path_(folder / rank_file_name(rank)),
        table_(table),
        source_(source),
        file_(create()),
        writeback_(file_.descriptor()),
        written_{rank, {}, {}} {}

  void write(ParamId id) {
    const std::vector<Fragment> owned = table_.owned(id);
    if (owned.empty()) return;
    FP_CHECK(table_[id].name.find_first_of("/%") == std::string::npos, "{}: not a name for a parameter",
             table_[id].name);
    for (const StateKind kind : kStateKinds)
      if (source_.has(kind))
        for (size_t i = 0; i < owned.size(); ++i) write(id, kind, static_cast<int>(i), owned[i]);
    file_.set_attribute(table_[id].name, "shape", numbers(table_[id].shape));
  }
  RankFile close() {
    storage::announce(storage::Step::close, path_);
    writeback_.start();  // goes on while the file is read back
    file_.close();
    written_.file = read_back(path_, table_, written_.parts);
    storage::sync(path_);
    return std::move(written_);
  }

 private:
  h5::File create() const {
    storage::announce(storage::Step::create_file, path_);
    return h5::File::create(path_);
  }
  void write(ParamId id, StateKind kind, int number, const Fragment& whole) {
    WrittenPart part{id, kind, number, box_of(whole), 0, 0};
    h5::Dataset dataset = file_.create_dataset(dataset_name(table_[id].name, kind, number), whole.count);
    part.offset = dataset.file_offset();
    for (const Fragment& f : chunks(whole, kBlockElements)) {
      const float* data = source_.read({id, kind, f});
      part.fingerprint += fingerprint(table_[id].shape, box_of(f), data, dense_window(f));
      constexpr auto kSize = static_cast<int64_t>(sizeof(float));
      const int64_t bytes = f.count.elements() * kSize;
      storage::announce(storage::Step::write, path_);
      write_raw(file_.descriptor(), path_, data, static_cast<size_t>(bytes),
                part.offset + (f.offset - whole.offset) * kSize);
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
  RankFile written_;
};

nlohmann::json to_json(const Shape& s) { return numbers(s); }

Shape shape_from(const nlohmann::json& list) {
  Shape s;
  for (const auto& d : list) s.push_back(d.get<int64_t>());
  return s;
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

std::string to_text(const RankFile& f) {
  nlohmann::json parts = nlohmann::json::array();
  for (const WrittenPart& p : f.parts)
    parts.push_back({p.id, static_cast<int>(p.kind), p.number, to_json(p.box.start), to_json(p.box.count), p.offset,
                     p.fingerprint});
  return nlohmann::json{f.rank, f.file.name, f.file.bytes, f.file.xxh3, std::move(parts)}.dump();
}

RankFile rank_file_from(const std::string& text) {
  const nlohmann::json j = nlohmann::json::parse(text);
  RankFile f{j.at(0), {j.at(1), j.at(2), j.at(3)}, {}};
  for (const auto& p : j.at(4))
    f.parts.push_back({p.at(0),
                       static_cast<StateKind>(p.at(1).get<int>()),
                       p.at(2),
                       {shape_from(p.at(3)), shape_from(p.at(4))},
                       p.at(5),
                       p.at(6)});
  return f;
}

RankFile write_rank_file(const std::filesystem::path& folder, const ParamTable& table, BlockSource& source, int rank) {
  Writer writer(folder, table, source, rank);
  for (ParamId id = 0; id < static_cast<ParamId>(table.size()); ++id) writer.write(id);
  return writer.close();
}

RankFile write_rank_file(const std::filesystem::path& folder, const ParamStore& store, Ops& ops, int rank) {
  return write_rank_file(folder, store.table(), *blocks_of(store, ops), rank);
}

}  // namespace fp
