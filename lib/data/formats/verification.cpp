#include "data/formats/verification.h"

#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <queue>
#include <sstream>

#include "base/error.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/task_progress.h"
#include "data/formats/data_file.h"
#include "data/formats/stamps.h"
#include "io/filesystem.h"

namespace fp {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kRange = uint64_t{64} << 20;  // bytes of a file that one thread verifies at a time
static_assert(kRange % kHashedBlock == 0);

// Bytes [begin, end) of a file, verified by one thread.
struct Range {
  size_t file;
  uint64_t begin, end;
  uint64_t bytes() const { return end - begin; }
};

// Assigns ranges to ranks so that all read about the same number of bytes: largest range first, to the least loaded
// rank.
std::vector<std::vector<Range>> split_by_bytes(std::vector<Range> ranges, int ranks) {
  std::ranges::stable_sort(ranges, [](const Range& a, const Range& b) { return a.bytes() > b.bytes(); });
  using Load = std::pair<uint64_t, size_t>;  // bytes, rank
  std::priority_queue<Load, std::vector<Load>, std::greater<>> least;
  for (size_t rank = 0; rank < static_cast<size_t>(ranks); ++rank) least.push({0, rank});
  std::vector<std::vector<Range>> ranges_of_rank(static_cast<size_t>(ranks));
  for (const Range& range : ranges) {
    const auto [bytes, rank] = least.top();
    least.pop();
    ranges_of_rank[rank].push_back(range);
    least.push({bytes + range.bytes(), rank});
  }
  return ranges_of_rank;
}

// Runs task(0) to task(n - 1) on all threads; rethrows the exception with the lowest index.
template <class Task>
void run_tasks(size_t n, Task&& task) {
  std::vector<std::exception_ptr> errors(n);
  parallel_each(static_cast<int64_t>(n), [&](int64_t i, int) {
    try {
      task(static_cast<size_t>(i));
    } catch (...) {
      errors[static_cast<size_t>(i)] = std::current_exception();
    }
  });
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
}

template <class Number>
Number number_at(std::span<const std::byte> bytes, size_t at) {
  Number number;
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

// Statistics of the entries of a range, collected sequentially.
struct SeenEntries {
  uint64_t highest = 0;
  uint64_t next = 0;  // for an index: the minimum of the next boundary
  bool increasing = true;

  void add(std::span<const std::byte> block, const SplitFile& file) {
    if (file.is_index) return add_boundaries(block);
    if (file.width == 1) return add_ids<uint8_t>(block);
    if (file.width == 2) return add_ids<uint16_t>(block);
    add_ids<uint32_t>(block);
  }

 private:
  template <class Id>
  void add_ids(std::span<const std::byte> block) {
    Id most = 0;
    for (size_t at = 0; at + sizeof(Id) <= block.size(); at += sizeof(Id))
      most = std::max(most, number_at<Id>(block, at));
    highest = std::max<uint64_t>(highest, most);
  }
  void add_boundaries(std::span<const std::byte> block) {
    for (size_t at = 0; at + sizeof(uint64_t) <= block.size(); at += sizeof(uint64_t)) {
      const auto boundary = number_at<uint64_t>(block, at);
      increasing = increasing && boundary >= next;
      next = boundary + 1;
    }
  }
};

class SplitVerifier {
 public:
  SplitVerifier(const fs::path& folder, const Manifest& manifest, Split split, const OpenOptions& options)
      : folder_(folder),
        split_(split),
        listed_(manifest.split(split).hashes),
        identity_(identity_of(manifest)),
        verify_(options.verify),
        sharing_(options.sharing != nullptr ? *options.sharing : alone_),
        files_(files_of(manifest, split)),
        hashes_(files_.size()),
        facts_(files_.size()),
        changed_(files_.size(), true) {}

  std::vector<BlockHashes> run() {
    check_counts();
    if (verify_ == Verify::changed) {
      find_changed_files();
    } else {
      if (has_listed()) load_hashes(folder_, listed_);
      for (size_t f = 0; f < files_.size(); ++f) check_size(f);
    }
    if (verify_ == Verify::nothing || std::ranges::count(changed_, true) == 0) return std::move(hashes_);
    verify_changed();
    if (verify_ == Verify::changed)
      sharing_.on_rank_0([this] {
        write_stamps();
        return std::string();
      });
    return std::move(hashes_);
  }

 private:
  // Whether the manifest lists hashes of each MiB; else they are computed when the files are first verified.
  bool has_listed() const { return !listed_.name.empty(); }
  fs::path path(size_t f) const { return folder_ / files_[f].record.name; }
  [[noreturn]] void fail(size_t f, const std::string& what) const {
    throw DataError(fmt::format("{}: {}; {}", path(f).string(), what, kRepairAdvice));
  }

  void check_counts() const {
    for (size_t f = 0; f < files_.size(); ++f)
      if (const uint64_t need = files_[f].entries * files_[f].width; files_[f].record.bytes != need)
        fail(f, fmt::format("the manifest says {} bytes, but its own counts need {}", files_[f].record.bytes, need));
  }

  void check_size(size_t f) {
    facts_[f] = facts_of(path(f));
    if (facts_[f].bytes != files_[f].record.bytes)
      fail(f, fmt::format("{} bytes, but the manifest says {}: truncated or altered", facts_[f].bytes,
                          files_[f].record.bytes));
  }

  void load_hashes(const fs::path& place, const FileRecord& record) {
    const fs::path file = place / record.name;
    uint64_t blocks = 0;
    for (const SplitFile& f : files_) blocks += blocks_in(f.record.bytes);
    if (facts_of(file).bytes != blocks * sizeof(uint64_t) || record.bytes != blocks * sizeof(uint64_t))
      throw DataError(
          fmt::format("{}: {} bytes are needed for the hashes of the {} split's files: truncated or altered; {}",
                      file.string(), blocks * sizeof(uint64_t), name_of(split_), kRepairAdvice));
    const std::string text = read_file(file);
    if (hash_bytes(text.data(), text.size()) != record.xxh3)
      throw DataError(
          fmt::format("{}: altered: its content does not match its hash; {}", file.string(), kRepairAdvice));
    size_t at = 0;
    for (size_t f = 0; f < files_.size(); ++f) {
      hashes_[f].resize(blocks_in(files_[f].record.bytes));
      std::memcpy(hashes_[f].data(), text.data() + at, hashes_[f].size() * sizeof(uint64_t));
      at += hashes_[f].size() * sizeof(uint64_t);
    }
  }

  // Each rank examines every ranks-th file; the results are shared by all.
  void find_changed_files() {
    const std::string found = sharing_.on_rank_0([this] {
      const StoredStamps stored = read_stamps(folder_, identity_);
      return stored.place.string() + "\n" + stored.stamps.text();
    });
    const fs::path place = found.substr(0, found.find('\n'));
    const Stamps stamps = Stamps::parse(found.substr(found.find('\n') + 1));
    bool all_have_hashes = true;
    for (const std::string& answer : sharing_.on_all([&] { return check_own_files(place, stamps); })) {
      std::istringstream numbers(answer);
      bool has_hashes = false;
      numbers >> has_hashes;
      all_have_hashes = all_have_hashes && has_hashes;
      for (size_t f; numbers >> f;) {
        require_same_data(f < files_.size());
        numbers >> facts_[f].bytes >> facts_[f].modified_ns >> facts_[f].inode;
      }
    }
    for (size_t f = 0; f < files_.size(); ++f) {
      const auto stamp = stamps.files.find(files_[f].record.name);
      changed_[f] = !all_have_hashes || stamp == stamps.files.end() || stamp->second != facts_[f];
    }
  }

  std::string check_own_files(const fs::path& place, const Stamps& stamps) {
    bool has_hashes = has_listed();
    if (has_listed()) load_hashes(folder_, listed_);
    if (const auto made = stamps.hashes.find(name_of(split_)); !has_listed() && made != stamps.hashes.end()) try {
        load_hashes(place, made->second);
        has_hashes = true;
      } catch (const DataError& e) {
        log::warning("{}; the data are verified again", e.what());
      }
    std::string text = has_hashes ? "1" : "0";
    for (auto f = static_cast<size_t>(sharing_.rank()); f < files_.size(); f += static_cast<size_t>(sharing_.ranks())) {
      check_size(f);
      text += fmt::format(" {} {} {} {}", f, facts_[f].bytes, facts_[f].modified_ns, facts_[f].inode);
    }
    return text;
  }

  void require_same_data(bool same) const {
    if (!same) throw DataError(fmt::format("{}: the ranks see different manifests in this folder", folder_.string()));
  }

  // A file without hashes of each MiB is one range, because its hash covers all of it.
  std::vector<Range> changed_ranges() const {
    const bool cut = has_listed() && verify_ == Verify::changed;
    std::vector<Range> ranges;
    for (size_t f = 0; f < files_.size(); ++f) {
      const uint64_t bytes = files_[f].record.bytes, step = cut ? kRange : std::max<uint64_t>(bytes, 1);
      for (uint64_t begin = 0; changed_[f] && begin < bytes; begin += step)
        ranges.push_back({f, begin, std::min(bytes, begin + step)});
    }
    return ranges;
  }

  void verify_changed() {
    const auto ranges_of_rank = split_by_bytes(changed_ranges(), sharing_.ranks());
    const std::vector<Range>& mine = ranges_of_rank[static_cast<size_t>(sharing_.rank())];
    const std::vector<std::string> answers = sharing_.on_all([&] {
      verify_ranges(mine);
      std::string made;
      if (!has_listed())
        for (const Range& range : mine)
          made.append(reinterpret_cast<const char*>(hashes_[range.file].data()),
                      hashes_[range.file].size() * sizeof(uint64_t));
      return made;
    });
    if (!has_listed())
      for (size_t rank = 0; rank < ranges_of_rank.size(); ++rank) take_hashes(ranges_of_rank[rank], answers[rank]);
  }

  void take_hashes(const std::vector<Range>& ranges, const std::string& made) {
    size_t at = 0;
    for (const Range& range : ranges) {
      BlockHashes& hashes = hashes_[range.file];
      hashes.resize(blocks_in(range.bytes()));
      const size_t bytes = hashes.size() * sizeof(uint64_t);
      require_same_data(made.size() - at >= bytes);
      std::memcpy(hashes.data(), made.data() + at, bytes);
      at += bytes;
    }
    require_same_data(at == made.size());
  }

  void verify_ranges(const std::vector<Range>& ranges) {
    total_ = std::accumulate(ranges.begin(), ranges.end(), uint64_t{0},
                             [](uint64_t sum, const Range& r) { return sum + r.bytes(); });
    if (sharing_.rank() == 0) progress_.emplace(fmt::format("verifying {}", folder_.string()));
    run_tasks(ranges.size(), [&](size_t i) { verify_range(ranges[i]); });
    progress_.reset();
  }

  void verify_range(const Range& range) {
    const SplitFile& file = files_[range.file];
    const DataFile data(path(range.file), file.record.bytes);
    struct Free {
      void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
    };
    const std::unique_ptr<XXH3_state_t, Free> whole(XXH3_createState());
    XXH3_128bits_reset(whole.get());
    BlockHashes made;
    SeenEntries entries;
    const bool begins = range.begin == 0, ends = range.end == file.record.bytes;
    std::vector<std::byte> block(sizeof(uint64_t));
    if (file.is_index && !begins) {
      data.read_past_cache(range.begin - block.size(), block);
      entries.next = number_at<uint64_t>(block, 0) + 1;
    }
    for (uint64_t at = range.begin; at < range.end; at += block.size()) {
      block.resize(std::min(kHashedBlock, range.end - at));
      data.read_past_cache(at, block);
      made.push_back(hash_of_block(block));
      if (has_listed() && made.back() != hashes_[range.file][at / kHashedBlock])
        fail(range.file, fmt::format("altered: bytes {} to {} do not match their hash in {}", at, at + block.size() - 1,
                                     listed_.name));
      if (begins && ends) XXH3_128bits_update(whole.get(), block.data(), block.size());
      if (file.is_index && at == 0) entries.increasing = number_at<uint64_t>(block, 0) == 0;
      entries.add(block, file);
      report_progress(block.size());
    }
    const XXH128_hash_t h = XXH3_128bits_digest(whole.get());
    if (begins && ends && fmt::format("{:016x}{:016x}", h.high64, h.low64) != file.record.xxh3)
      fail(range.file, "altered: its content does not match the hash in the manifest");
    check_entries(range.file, entries, ends);
    if (!has_listed()) hashes_[range.file] = std::move(made);
  }

  void check_entries(size_t f, const SeenEntries& entries, bool ends) const {
    const uint64_t highest = files_[f].highest;
    if (files_[f].is_index && (!entries.increasing || (ends && entries.next != highest + 1)))
      fail(f, fmt::format("the document boundaries are not increasing from 0 to {}", highest));
    if (!files_[f].is_index && entries.highest > highest)
      fail(f, fmt::format("holds token id {}, but the manifest says that the highest is {}", entries.highest, highest));
  }

  void report_progress(uint64_t bytes) {
    const uint64_t done = done_ += bytes;
    if (const std::unique_lock lock(progress_mutex_, std::try_to_lock); lock && progress_)
      progress_->update(done, total_, "MB", 1e6);
  }

  void write_stamps() const {
    for (const fs::path& place : stamp_places(folder_)) try {
        StoredStamps known = read_stamps(folder_, identity_);
        if (known.place != place) known.stamps = {identity_, {}, {}};
        for (size_t f = 0; f < files_.size(); ++f) known.stamps.files[files_[f].record.name] = facts_[f];
        if (place != folder_) make_private_folder(place);
        if (!has_listed()) known.stamps.hashes[name_of(split_)] = write_hashes(place);
        return write_file_atomically(place / Stamps::kFileName, known.stamps.text());
      } catch (const DataError&) {
        continue;
      }
    log::info("{}: neither this folder nor your cache folder is writable, so every start verifies all of its files",
              folder_.string());
  }

  static void make_private_folder(const fs::path& folder) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (!error) fs::permissions(folder, fs::perms::owner_all, error);
    if (error) throw DataError(fmt::format("{}: {}", folder.string(), error.message()));
  }

  FileRecord write_hashes(const fs::path& place) const {
    std::string text;
    for (const BlockHashes& hashes : hashes_)
      text.append(reinterpret_cast<const char*>(hashes.data()), hashes.size() * sizeof(uint64_t));
    const std::string name = fmt::format("{}-{}.hashes", Stamps::kFileName, name_of(split_));
    write_file_atomically(place / name, text);
    return {name, text.size(), hash_bytes(text.data(), text.size())};
  }

  WorkSharing alone_;
  const fs::path folder_;
  const Split split_;
  const FileRecord listed_;
  const std::string identity_;
  const Verify verify_;
  WorkSharing& sharing_;
  const std::vector<SplitFile> files_;
  std::vector<BlockHashes> hashes_;  // for each file
  std::vector<FileFacts> facts_;
  std::vector<bool> changed_;
  uint64_t total_ = 0;
  std::atomic<uint64_t> done_ = 0;
  std::mutex progress_mutex_;
  std::optional<TaskProgress> progress_;
};

}  // namespace

std::vector<SplitFile> files_of(const Manifest& manifest, Split split) {
  const SplitRecord& record = manifest.split(split);
  std::vector<SplitFile> files;
  const auto add = [&](const std::vector<FileRecord>& records, size_t width, uint64_t highest) {
    for (uint64_t i = 0; i < records.size(); ++i)
      files.push_back(
          {records[i], width, std::min(manifest.shard_tokens, record.tokens - i * manifest.shard_tokens), highest});
  };
  add(record.shards, static_cast<size_t>(manifest.token_bytes), static_cast<uint64_t>(manifest.highest_id));
  add(record.loss_masks, 1, 1);
  files.push_back({record.index, sizeof(uint64_t), record.documents + 1, record.tokens, true});
  return files;
}

std::vector<BlockHashes> verify_split(const fs::path& folder, const Manifest& manifest, Split split,
                                      const OpenOptions& options) {
  return SplitVerifier(folder, manifest, split, options).run();
}

}  // namespace fp
