#include "data/formats/token_stream.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

#include "base/error.h"

namespace fp {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the files are little endian and are read as they lie in memory");

// Copies ids and returns the index of the first one outside [0, highest]; out.size() when there is none.
template <class Id>
size_t copy_ids(const std::byte* from, std::span<int32_t> out, int64_t highest) {
  for (size_t i = 0; i < out.size(); ++i) {
    Id id;
    std::memcpy(&id, from + i * sizeof(Id), sizeof(Id));
    if (static_cast<int64_t>(id) < 0 || static_cast<int64_t>(id) > highest) return i;
    out[i] = static_cast<int32_t>(id);
  }
  return out.size();
}

template <class Id>
int64_t id_at(const std::byte* from) {
  Id id;
  std::memcpy(&id, from, sizeof(Id));
  return static_cast<int64_t>(id);
}

template <class Visit>
auto visit(TokenType type, Visit&& visit) {
  switch (type) {
    case TokenType::u8:
      return visit(uint8_t{});
    case TokenType::i8:
      return visit(int8_t{});
    case TokenType::u16:
      return visit(uint16_t{});
    case TokenType::i16:
      return visit(int16_t{});
    case TokenType::u32:
      return visit(uint32_t{});
    case TokenType::i32:
      return visit(int32_t{});
    case TokenType::i64:
      break;
  }
  return visit(int64_t{});
}

}  // namespace

uint64_t width_of(TokenType type) {
  return visit(type, [](auto id) { return uint64_t{sizeof(id)}; });
}

void TokenStream::add(std::shared_ptr<const DataFile> file, uint64_t offset, uint64_t tokens) {
  FP_CHECK(offset <= file->size() && tokens <= (file->size() - offset) / width_of(type_),
           "{} tokens from byte {} of {}: {} bytes", tokens, offset, file->name(), file->size());
  ends_.push_back(size() + tokens);
  parts_.push_back({std::move(file), offset});
}

void TokenStream::read(uint64_t begin, std::span<int32_t> out, int64_t highest) const {
  FP_CHECK(begin <= size() && out.size() <= size() - begin, "tokens [{}, {}) of {}", begin, begin + out.size(), size());
  std::vector<std::byte> raw;
  auto p = static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), begin) - ends_.begin());
  for (; !out.empty(); ++p) {
    const uint64_t at = begin - (p > 0 ? ends_[p - 1] : 0), n = std::min<uint64_t>(out.size(), ends_[p] - begin);
    raw.resize(n * width_of(type_));
    parts_[p].file->read(parts_[p].offset + at * width_of(type_), raw);
    visit(type_, [&](auto zero) {
      using Id = decltype(zero);
      const size_t good = copy_ids<Id>(raw.data(), out.first(n), highest);
      if (good < n)
        throw DataError(fmt::format("{}: token {} is {}, but the ids of its tokenizer are 0 to {}",
                                    parts_[p].file->name(), at + good, id_at<Id>(raw.data() + good * sizeof(Id)),
                                    highest));
    });
    out = out.subspan(n);
    begin += n;
  }
}

std::string TokenStream::fingerprint() const {
  constexpr uint64_t kBlock = 4096, kBlocks = 64;
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash(XXH3_createState(), XXH3_freeState);
  XXH3_128bits_reset(hash.get());
  std::vector<std::byte> raw;
  for (const Part& part : parts_) {
    const uint64_t size = part.file->size();
    XXH3_128bits_update(hash.get(), &size, sizeof size);
    const auto add = [&](uint64_t at, uint64_t bytes) {
      raw.resize(bytes);
      part.file->read_past_cache(at, raw);
      XXH3_128bits_update(hash.get(), raw.data(), raw.size());
    };
    if (size <= kBlock * kBlocks) {
      if (size > 0) add(0, size);
      continue;
    }
    const uint64_t step = (size - kBlock) / (kBlocks - 1);
    for (uint64_t b = 0; b < kBlocks; ++b) add(b + 1 < kBlocks ? b * step : size - kBlock, kBlock);
  }
  const XXH128_hash_t h = XXH3_128bits_digest(hash.get());
  return fmt::format("{:016x}{:016x}", h.high64, h.low64);
}

}  // namespace fp
