#include "bench/checkpoint_benchmark.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>

#include "base/median.h"
#include "base/parallel.h"
#include "base/philox.h"
#include "base/stopwatch.h"
#include "bench/disk_benchmark.h"
#include "checkpoint/checkpoint.h"
#include "config/load.h"
#include "model/architecture.h"

namespace fp {
namespace {

constexpr int kRounds = 5;

struct MeshChoice {
  std::string name;
  int tensor, data, zero;
};
const MeshChoice kSaved{"tensor 2 x data 2, ZeRO 1", 2, 2, 1};
const std::vector<MeshChoice> kOthers = {
    {"one rank", 1, 1, 0}, {"tensor 4", 4, 1, 0}, {"data 3, ZeRO 3", 1, 3, 3}, {"tensor 3 x data 2, ZeRO 2", 3, 2, 2}};

// Returns a GPT of about this many parameters, with a few layers of a typical width.
ModelSection model_of(int64_t parameters) {
  int64_t hidden = 2048;
  while (hidden > 128 && 6 * 12 * hidden * hidden > parameters) hidden /= 2;
  const int64_t vocab = 2048, layers = std::max<int64_t>(1, (parameters - vocab * hidden) / (12 * hidden * hidden));
  return parse_run_spec(fmt::format("model: {{family: gpt, layers: {}, hidden: {}, heads: 8, vocab: {}}}\n", layers,
                                    hidden, vocab),
                        "bench")
      .model;
}

// The parameters and state of one rank of a mesh.
class RankState {
 public:
  RankState(const ModelSection& model, const MeshChoice& choice, int rank, Ops& ops)
      : table_(choice.tensor, rank % choice.tensor, choice.data, rank / choice.tensor) {
    declare_parameters(model, table_);
    table_.set_slots(state_slots(OptimizerKind::adamw));
    const StoreOptions options{DType::f32, true, DType::f32, choice.zero};
    Arena dry;
    const ParamStore sizes(table_, options, dry);
    arena_.emplace(ops.allocate(dry.peak(), false), dry.peak());
    store_.emplace(table_, options, *arena_);
    fill(ops);
  }
  ParamStore& store() { return *store_; }
  const ParamTable& table() const { return table_; }

 private:
  // Fills with noise, since disks and file systems may store zeros faster. Also touches all pages.
  void fill(Ops& ops) {
    std::vector<float> noise(size_t{1} << 20);
    for (size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<float>(Philox::mix(i) >> 40) - 8e6f;
    const auto block = static_cast<int64_t>(noise.size());
    std::vector<Tensor> all = {store_->grads()};
    for (int slot = 0; slot < table_.slot_count(); ++slot) all.push_back(store_->slot(slot));
    for (const Tensor& flat : all)
      for (int64_t at = 0; at < flat.elements(); at += block)
        ops.copy_in({flat.slice(at, std::min(block, flat.elements() - at)), noise.data()});
  }

  ParamTable table_;
  std::optional<Arena> arena_;
  std::optional<ParamStore> store_;
};

// All ranks of a mesh, as threads.
class Ranks {
 public:
  Ranks(const ModelSection& model, const MeshChoice& choice, Ops& ops) : choice_(choice), ops_(ops) {
    for (int r = 0; r < choice.tensor * choice.data; ++r)
      states_.push_back(std::make_unique<RankState>(model, choice, r, ops));
  }
  const std::string& mesh() const { return choice_.name; }
  std::filesystem::path save(const std::filesystem::path& folder) const {
    const std::filesystem::path hidden = begin_save(folder, 1);
    std::vector<RankFile> files(states_.size());
    on_all([&](size_t r) { files[r] = write_rank_file(hidden, states_[r]->store(), ops_, static_cast<int>(r)); });
    const int ranks = static_cast<int>(states_.size());
    return finish_save(hidden, states_[0]->table(), files, {},
                       {"fptrain bench", Mesh(1, choice_.data, 1, choice_.tensor, ranks), 0});
  }
  void load(const std::filesystem::path& checkpoint) const {
    const Checkpoint c = Checkpoint::open(checkpoint, Checkpoint::Verify::all_but_tensors);
    std::vector<Fingerprints> prints(states_.size());
    on_all([&](size_t r) { prints[r] = c.load(states_[r]->store(), ops_); });
    Fingerprints sums;
    for (const Fingerprints& of_rank : prints) add(sums, of_rank);
    check_fingerprints(c, states_[0]->table(), sums);
  }

 private:
  // Runs all ranks at the same time, as in a real run, each with an equal part of the cores.
  void on_all(const std::function<void(size_t rank)>& work) const {
    const int threads = std::max(1, max_threads() / static_cast<int>(states_.size()));
    std::vector<std::future<void>> running;
    for (size_t r = 0; r < states_.size(); ++r)
      running.push_back(std::async(std::launch::async, [&, r] {
        set_threads(threads);
        work(r);
      }));
    for (auto& one : running) one.get();
  }
  static void add(Fingerprints& sums, const Fingerprints& more) {
    sums.resize(more.size());
    for (size_t i = 0; i < more.size(); ++i)
      for (const auto& [state, print] : more[i]) sums[i][state] += print;
  }

  MeshChoice choice_;
  Ops& ops_;
  std::vector<std::unique_ptr<RankState>> states_;
};

struct ScratchFolder {
  explicit ScratchFolder(const std::filesystem::path& where) : path((where / "fptrain-bench-XXXXXX").string()) {
    if (::mkdtemp(path.data()) == nullptr)
      throw DataError(fmt::format("{}: {}", path, std::generic_category().message(errno)));
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::string path;
};

// Asks the kernel to drop the files from its cache.
void forget(const std::filesystem::path& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const int fd = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    ::close(fd);
  }
}

class Benchmark {
 public:
  Benchmark(const std::filesystem::path& folder, int64_t bytes, Ops& ops)
      : folder_(folder), scratch_(folder), model_(model_of(bytes / 12)), ops_(ops) {}

  CheckpointRates run() {
    CheckpointRates r;
    r.mesh = kSaved.name;
    const Ranks ranks(model_, kSaved, ops_);
    r.save = beside_plain(&DiskRates::write_bytes_per_s, [&] { return save(ranks); });
    r.load = beside_plain(&DiskRates::read_bytes_per_s, [&] { return load(ranks); });
    for (const MeshChoice& choice : kOthers) r.others.push_back(compare(Ranks(model_, choice, ops_), ranks));
    r.bytes = bytes_;
    return r;
  }

 private:
  double save(const Ranks& ranks) {
    if (!checkpoint_.empty()) std::filesystem::remove_all(checkpoint_);
    const double seconds = seconds_of([&] { checkpoint_ = ranks.save(scratch_.path); });
    bytes_ = static_cast<int64_t>(read_checkpoint_manifest(checkpoint_).bytes());
    return seconds;
  }
  double load(const Ranks& ranks) const {
    forget(checkpoint_);
    return seconds_of([&] { ranks.load(checkpoint_); });
  }
  // A plain file follows each round and only the ratio counts, because disk speeds vary over time.
  template <class Work>
  CheckpointRates::BesidePlain beside_plain(double DiskRates::*rate, const Work& work) const {
    std::vector<double> of_work, of_plain, shares;
    for (int i = 0; i < kRounds; ++i) {
      of_work.push_back(work());
      of_plain.push_back(static_cast<double>(bytes_) / (benchmark_disk(folder_, bytes_).*rate));
      shares.push_back(of_plain.back() / of_work.back());
    }
    return {median(of_work), median(of_plain), median(shares)};
  }

  // Times loads on another mesh, each followed by one on the mesh that saved.
  CheckpointRates::Other compare(const Ranks& other, const Ranks& same) const {
    std::vector<double> seconds, ratios;
    for (int i = 0; i < kRounds; ++i) {
      seconds.push_back(load(other));
      ratios.push_back(seconds.back() / load(same));
    }
    return {other.mesh(), median(seconds), median(ratios)};
  }

  const std::filesystem::path& folder_;
  ScratchFolder scratch_;
  ModelSection model_;
  Ops& ops_;
  std::filesystem::path checkpoint_;
  int64_t bytes_ = 0;  // of the checkpoint
};

}  // namespace

CheckpointRates benchmark_checkpoint(const std::filesystem::path& folder, int64_t bytes, Ops& ops) {
  return Benchmark(folder, bytes, ops).run();
}

}  // namespace fp
