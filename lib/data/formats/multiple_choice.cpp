#include "data/formats/multiple_choice.h"

#include <array>
#include <cstring>

#include "base/error.h"
#include "io/filesystem.h"

namespace fp {
namespace {

constexpr size_t kHeaderBytes = 1024;
constexpr uint16_t kStart = 0xFFFF;

// Reads the 16-bit numbers of a file; throws DataError instead of reading beyond its end.
class Numbers {
 public:
  Numbers(std::span<const std::byte> bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(fmt::format("{}: example {}: {}", where_, example_, what));
  }
  uint16_t next(const char* what) {
    if (at_ + 2 > bytes_.size()) fail(fmt::format("the file ends where {} should be", what));
    uint16_t number;
    std::memcpy(&number, bytes_.data() + at_, sizeof number);
    at_ += sizeof number;
    return number;
  }
  std::vector<int32_t> ids(const char* what) {
    const size_t n = next(what);
    if (bytes_.size() - at_ < 2 * n) fail(fmt::format("{} of {} ids goes beyond the end of the file", what, n));
    std::vector<int32_t> ids(n);
    for (int32_t& id : ids)
      if ((id = next(what)) == kStart) fail(fmt::format("{} holds 65535, which begins an example", what));
    return ids;
  }
  size_t at() const { return at_; }
  bool ended() const { return at_ == bytes_.size(); }
  void begin(int32_t example) { example_ = example; }

 private:
  std::span<const std::byte> bytes_;
  const std::string& where_;
  size_t at_ = kHeaderBytes;
  int32_t example_ = 0;
};

MultipleChoice read_example(Numbers& numbers, int32_t example, int32_t longest) {
  numbers.begin(example);
  const size_t begin = numbers.at();
  const auto need = [&](bool ok, const std::string& what) {
    if (!ok) numbers.fail(what);
  };
  const uint16_t start = numbers.next("65535");
  need(start == kStart, fmt::format("begins with {}, not 65535", start));
  const uint16_t bytes = numbers.next("its size");
  const uint16_t index = numbers.next("its index");
  need(index == example, fmt::format("has index {}", index));
  MultipleChoice m;
  m.label = numbers.next("the label");
  const uint16_t completions = numbers.next("the number of completions");
  need(completions >= 2, fmt::format("{} completions: two or more are needed", completions));
  need(m.label < completions, fmt::format("label {} of {} completions", m.label, completions));
  m.context = numbers.ids("the context");
  for (uint16_t c = 0; c < completions; ++c) {
    m.completions.push_back(numbers.ids("a completion"));
    need(!m.completions.back().empty(), fmt::format("completion {} is empty", c));
  }
  need(numbers.at() - begin == bytes,
       fmt::format("has {} bytes, but states a size of {}", numbers.at() - begin, bytes));
  need(bytes <= longest, fmt::format("has {} bytes, more than the header's longest, {}", bytes, longest));
  return m;
}

}  // namespace

std::vector<MultipleChoice> parse_multiple_choice(std::span<const std::byte> file, const std::string& where) {
  const auto need = [&](bool ok, const std::string& what) {
    if (!ok) throw DataError(fmt::format("{}: {}", where, what));
  };
  need(file.size() >= kHeaderBytes, fmt::format("{} bytes, less than the header ({})", file.size(), kHeaderBytes));
  std::array<int32_t, 4> head;
  std::memcpy(head.data(), file.data(), sizeof head);
  const auto [magic, version, examples, longest] = head;
  need(magic == kMultipleChoiceMagic,
       fmt::format("magic number {}: a multiple-choice file of llm.c has {}", magic, kMultipleChoiceMagic));
  need(version == 1, fmt::format("version {}: legal: 1", version));
  need(examples >= 1 && examples < kStart, fmt::format("{} examples: legal: 1 to {}", examples, kStart - 1));
  std::vector<MultipleChoice> all;
  Numbers numbers(file, where);
  for (int32_t e = 0; e < examples; ++e) all.push_back(read_example(numbers, e, longest));
  need(numbers.ended(), fmt::format("{} bytes after the last example", file.size() - numbers.at()));
  return all;
}

std::vector<MultipleChoice> read_multiple_choice(const std::filesystem::path& path) {
  const MappedFile file(path);
  return parse_multiple_choice(file.as<std::byte>(), path.string());
}

}  // namespace fp
