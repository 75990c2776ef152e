#include "checkpoint/fragment_table.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "checkpoint/plain_file.h"
#include "io/filesystem.h"

namespace fp {
namespace {

static_assert(std::endian::native == std::endian::little, "index.bin is little-endian");

constexpr std::string_view kMagic = "fptrain table 1\n";
constexpr size_t kNumber = sizeof(uint64_t);
constexpr uint64_t kMostTable = uint64_t{2} << 30;  // about 35 million fragments

size_t numbers_for(size_t bytes) { return (bytes + kNumber - 1) / kNumber; }

void append_name(std::vector<uint64_t>& numbers, std::string_view name) {
  numbers.push_back(name.size());
  const size_t at = numbers.size();
  numbers.resize(at + numbers_for(name.size()), 0);
  std::memcpy(numbers.data() + at, name.data(), name.size());
}

}  // namespace

std::string serialize_fragments(const std::vector<IndexedParam>& parameters) {
  std::vector<uint64_t> numbers{parameters.size()};
  for (const IndexedParam& p : parameters) {
    append_name(numbers, p.param.name);
    numbers.push_back(static_cast<uint64_t>(p.param.shape.rank()));
    for (int d = 0; d < p.param.shape.rank(); ++d) numbers.push_back(static_cast<uint64_t>(p.param.shape[d]));
    numbers.push_back(p.fragments.size());
    for (size_t i = 0; i < p.fragments.size(); ++i) {
      const std::vector<uint64_t> rows = rows_of(p.fragments[i]);
      numbers.push_back(i);
      numbers.push_back(p.fragments[i].size());
      numbers.insert(numbers.end(), rows.begin(), rows.end());
    }
  }
  std::string content(kMagic);
  content.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * kNumber);
  if (content.size() > kMostTable)
    throw DataError(fmt::format("{} would have {} bytes; legal: up to {}", CheckpointManifest::kTableName,
                                content.size(), kMostTable));
  return content;
}

// Parses the numbers in one pass; each must match the manifest.
class FragmentTable::Parser {
 public:
  explicit Parser(FragmentTable& table) : table_(table), numbers_(table.numbers_) {}

  void parse(const std::vector<CheckpointParam>& parameters) {
    expect(parameters.size(), "parameters");
    for (const CheckpointParam& p : parameters) table_.rows_[p.name] = rows_of_param(p);
    if (at_ != numbers_.size())
      throw DataError(fmt::format("{}: {} bytes are left over", table_.where_, (numbers_.size() - at_) * kNumber));
  }

 private:
  [[noreturn]] void fail_at(size_t position, const std::string& problem) const {
    throw DataError(fmt::format("{}: at byte {}: {}", table_.where_, kMagic.size() + position * kNumber, problem));
  }
  uint64_t next() {
    if (at_ == numbers_.size()) fail_at(at_, "unexpected end of file");
    return numbers_[at_++];
  }
  void expect(uint64_t value, const std::string& what) {
    const uint64_t found = next();
    if (found != value) fail_at(at_ - 1, fmt::format("{}: {}, but {} in the manifest", what, found, value));
  }
  void expect_name(const std::string& name) {
    std::vector<uint64_t> wanted;
    append_name(wanted, name);
    for (const uint64_t number : wanted)
      if (next() != number) fail_at(at_ - 1, fmt::format("its name differs from the manifest's, {}", name));
  }
  std::vector<Rows> rows_of_param(const CheckpointParam& p) {
    expect_name(p.name);
    expect(static_cast<uint64_t>(p.shape.rank()), p.name + ": dimensions");
    for (int d = 0; d < p.shape.rank(); ++d) expect(static_cast<uint64_t>(p.shape[d]), p.name + ": shape");
    expect(p.states.size(), p.name + ": states");
    std::vector<Rows> rows;
    for (size_t i = 0; i < p.states.size(); ++i) {
      expect(i, p.name + ": number of the state");
      const size_t columns = row_length(p.shape.rank());
      const uint64_t fragments = next();
      if (fragments == 0 || fragments > (numbers_.size() - at_) / columns)
        fail_at(at_ - 1, fmt::format("{}: {} fragments, but {} numbers follow, {} for each", p.name, fragments,
                                     numbers_.size() - at_, columns));
      rows.push_back({at_, static_cast<size_t>(fragments) * columns});
      at_ += static_cast<size_t>(fragments) * columns;
    }
    return rows;
  }

  FragmentTable& table_;
  const std::vector<uint64_t>& numbers_;
  size_t at_ = 0;
};

FragmentTable::FragmentTable(std::string_view content, const std::vector<CheckpointParam>& parameters,
                             const std::string& where)
    : where_(where) {
  if (!content.starts_with(kMagic) || content.size() == kMagic.size() || content.size() % kNumber != 0)
    throw DataError(fmt::format("{}: is not a table of fragments, or is damaged", where));
  numbers_.resize((content.size() - kMagic.size()) / kNumber);
  std::memcpy(numbers_.data(), content.data() + kMagic.size(), numbers_.size() * kNumber);
  Parser(*this).parse(parameters);
}

FragmentTable FragmentTable::read(const std::filesystem::path& folder, const CheckpointManifest& manifest) {
  const CheckpointFile* file = manifest.file(CheckpointManifest::kTableName);
  FP_CHECK(file != nullptr, "{}: has no {}", folder.string(), CheckpointManifest::kTableName);
  const std::filesystem::path path = folder / file->name;
  const std::string content = read_plain_file(path, kMostTable);
  if (content.size() != file->bytes || hash_bytes(content.data(), content.size()) != file->xxh3)
    throw DataError(fmt::format("{}: content differs from what was saved (its size or hash is wrong)", path.string()));
  return FragmentTable(content, manifest.parameters, path.string());
}

std::vector<StoredFragment> FragmentTable::fragments(const CheckpointParam& param, const std::string& state) const {
  const auto found = rows_.find(param.name);
  const auto index =
      static_cast<size_t>(std::ranges::find(param.states, state, &StoredState::name) - param.states.begin());
  const Rows rows = found == rows_.end() || index >= found->second.size() ? Rows() : found->second[index];
  if (rows.count == 0) throw DataError(fmt::format("{}: has no {} of {}", where_, state, param.name));
  return fragments_in(std::span(numbers_).subspan(rows.first, rows.count), param.shape.rank(),
                      fmt::format("{}: {}", where_, dataset_name(param.name, state)));
}

}  // namespace fp
