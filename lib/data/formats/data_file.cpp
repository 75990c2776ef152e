#include "data/formats/data_file.h"

#include <algorithm>
#include <atomic>
#include <limits>

#include "base/error.h"
#include "base/progress.h"
#include "data/formats/lru_cache.h"
#include "io/readable_file.h"

namespace fp {
namespace {

constexpr size_t kMaxOpenFiles = 64;

std::atomic<uint64_t> files_made = 0, disk_bytes = 0;

LruCache<uint64_t, ReadableFile>& open_files() {
  static LruCache<uint64_t, ReadableFile> files(kMaxOpenFiles);
  return files;
}

using PageKey = std::pair<uint64_t, uint64_t>;  // file id, page number
LruCache<PageKey, std::vector<std::byte>>& pages() {
  static LruCache<PageKey, std::vector<std::byte>> all(DataFile::kMaxPages);
  return all;
}

}  // namespace

DataFile::DataFile(const std::filesystem::path& path) : DataFile(path, facts_of(path).bytes) {}

DataFile::DataFile(const std::filesystem::path& path, uint64_t bytes, BlockHashes hashes)
    : name_(path.string()), id_(files_made++), bytes_(bytes), hashes_(std::move(hashes)), checked_(hashes_.size()) {
  FP_CHECK(hashes_.empty() || hashes_.size() == blocks_in(bytes_), "{}: {} hashes of {} bytes", name_, hashes_.size(),
           bytes_);
}

DataFile::~DataFile() {
  open_files().erase(id_, id_);
  pages().erase({id_, 0}, {id_, std::numeric_limits<uint64_t>::max()});
}

uint64_t DataFile::bytes_read() { return disk_bytes; }

void DataFile::read_past_cache(uint64_t at, std::span<std::byte> out) const {
  FP_CHECK(at <= bytes_ && out.size() <= bytes_ - at, "{}: bytes [{}, {}) of {}", name_, at, at + out.size(), bytes_);
  auto file = open_files().find(id_);
  if (!file) open_files().put(id_, file = std::make_shared<ReadableFile>(name_));
  const size_t got = file->read(at, out);
  disk_bytes += got;
  progress();
  if (got < out.size())
    throw DataError(
        fmt::format("{}: ends at byte {}, but {} were there when it was opened: truncated", name_, at + got, bytes_));
}

bool DataFile::needs_check(uint64_t block) const {
  if (hashes_.empty()) return false;
  const std::lock_guard lock(mutex_);
  return !checked_[block];
}

// Reads and verifies the whole block that contains a page, and caches all of its pages.
std::shared_ptr<DataFile::Page> DataFile::read_checked(uint64_t page_number) const {
  constexpr uint64_t kPagesInBlock = kHashedBlock / kPageBytes;
  static_assert(kHashedBlock % kPageBytes == 0);
  const uint64_t block = page_number / kPagesInBlock, begin = block * kHashedBlock;
  Page whole(std::min(kHashedBlock, bytes_ - begin));
  read_past_cache(begin, whole);
  if (hash_of_block(whole) != hashes_[block])
    throw DataError(fmt::format("{}: altered: bytes {} to {} do not match their stored hash", name_, begin,
                                begin + whole.size() - 1));
  {
    const std::lock_guard lock(mutex_);
    checked_[block] = true;
  }
  std::shared_ptr<Page> wanted;
  for (uint64_t at = 0, number = block * kPagesInBlock; at < whole.size(); at += kPageBytes, ++number) {
    const auto part = std::span(whole).subspan(at, std::min<size_t>(kPageBytes, whole.size() - at));
    auto page = std::make_shared<Page>(part.begin(), part.end());
    if (number == page_number) wanted = page;
    pages().put({id_, number}, std::move(page));
  }
  return wanted;
}

std::shared_ptr<DataFile::Page> DataFile::page(uint64_t number) const {
  if (auto kept = pages().find({id_, number})) return kept;
  const uint64_t begin = number * kPageBytes;
  if (needs_check(begin / kHashedBlock)) return read_checked(number);
  auto fresh = std::make_shared<Page>(std::min<uint64_t>(kPageBytes, bytes_ - begin));
  read_past_cache(begin, *fresh);
  pages().put({id_, number}, fresh);
  return fresh;
}

void DataFile::read(uint64_t at, std::span<std::byte> out) const {
  FP_CHECK(at <= bytes_ && out.size() <= bytes_ - at, "{}: bytes [{}, {}) of {}", name_, at, at + out.size(), bytes_);
  while (!out.empty()) {
    const auto content = page(at / kPageBytes);
    const size_t from = at % kPageBytes, n = std::min(out.size(), content->size() - from);
    std::memcpy(out.data(), content->data() + from, n);
    out = out.subspan(n);
    at += n;
  }
}

}  // namespace fp
