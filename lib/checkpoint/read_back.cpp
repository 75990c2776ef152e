#include "checkpoint/read_back.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "base/error.h"
#include "base/progress.h"
#include "checkpoint/stored_elements.h"
#include "io/filesystem.h"

namespace fp {
namespace {

constexpr int64_t kPiece = int64_t{1} << 18;  // bytes that stay in a core's cache
constexpr auto kMostElements = kPiece / static_cast<int64_t>(sizeof(float));

[[noreturn]] void fail_comparison(const std::filesystem::path& path, const std::string& what) {
  throw DataError(fmt::format(
      "{}: the file differs from the data in memory: {}; the memory, the disk or another process altered it",
      path.string(), what));
}

// Reads a file from its first byte to its last and hashes it.
class HashedReading {
 public:
  explicit HashedReading(const ReadableFile& file) : file_(file), values_(kMostElements) {}

  // The next elements, at most kMostElements of them.
  std::span<const float> next(int64_t elements, DType dtype) {
    read(stored_in(values_.data(), elements, dtype), stored_bytes(elements, dtype));
    from_stored(values_.data(), elements, dtype);
    return {values_.data(), static_cast<size_t>(elements)};
  }
  void skip_to(int64_t end) {
    while (at_ < end) read(values_.data(), std::min(kPiece, end - at_));
  }
  int64_t at() const { return at_; }
  std::string hash() const { return hash_.digits(); }

 private:
  void read(void* to, int64_t bytes) {
    file_.read_exactly(static_cast<uint64_t>(at_), to, static_cast<size_t>(bytes));
    hash_.add(to, static_cast<size_t>(bytes));
    at_ += bytes;
    progress();
  }

  const ReadableFile& file_;
  std::vector<float> values_;
  ContentHash hash_;
  int64_t at_ = 0;
};

uint64_t fingerprint_of_next(HashedReading& file, const Shape& logical, const Box& box, DType dtype) {
  uint64_t sum = 0;
  for (int64_t first = 0; first < box.count.elements();) {
    const int64_t elements = std::min(kMostElements, box.count.elements() - first);
    sum += fingerprint(logical, box, first, file.next(elements, dtype));
    first += elements;
  }
  return sum;
}

}  // namespace

CheckpointFile read_back(const ReadableFile& reader, const ParamTable& table, const std::vector<WrittenPart>& parts) {
  const std::filesystem::path& path = reader.path();
  std::vector<const WrittenPart*> in_order;
  for (const WrittenPart& p : parts) in_order.push_back(&p);
  std::ranges::sort(in_order, {}, [](const WrittenPart* p) { return p->offset; });
  const auto bytes = static_cast<int64_t>(reader.bytes());
  HashedReading file(reader);
  std::string differing;
  for (const WrittenPart* p : in_order) {
    FP_CHECK(p->offset >= file.at(), "{}: two tensors overlap", path.string());
    file.skip_to(p->offset);
    const DType dtype = table.slots()[static_cast<size_t>(p->slot)].dtype;
    if (fingerprint_of_next(file, table[p->id].shape, p->box, dtype) != p->fingerprint)
      differing +=
          fmt::format("{}{} of {}", differing.empty() ? "" : ", ", table.slot_name(p->slot), table[p->id].name);
  }
  file.skip_to(bytes);
  if (!differing.empty()) fail_comparison(path, differing);
  return {path.filename().string(), static_cast<uint64_t>(bytes), file.hash()};
}

CheckpointFile read_back(const std::filesystem::path& path, const std::string& text) {
  const CheckpointFile file{path.filename().string(), text.size(), hash_bytes(text.data(), text.size())};
  require_same(path, file);
  return file;
}

void require_same(const std::filesystem::path& path, const CheckpointFile& file) {
  if (hash_file(path) != file.xxh3) fail_comparison(path, "its hash differs");
}

}  // namespace fp
