#include "data/tokenizer/wire_format.h"

#include <cstring>

#include "base/error.h"

namespace fp {

void WireReader::fail(const std::string& what) const {
  throw DataError(fmt::format("{}, byte {}: {}", where_, offset_ + field_at_, what));
}

uint64_t WireReader::varint() {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (at_ == message_.size()) fail("the file ends inside a number");
    const auto byte = static_cast<uint8_t>(message_[at_++]);
    if (shift == 63 && byte > 1) break;
    value |= uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
  fail("a number of more than 64 bits");
}

std::string_view WireReader::take(uint64_t size) {
  if (size > message_.size() - at_)
    fail(fmt::format("field {} has {} bytes, and {} are left", field_, size, message_.size() - at_));
  const std::string_view result = message_.substr(at_, size);
  at_ += size;
  return result;
}

bool WireReader::next() {
  field_at_ = at_;
  if (at_ == message_.size()) return false;
  const uint64_t key = varint();
  type_ = static_cast<uint32_t>(key & 7);
  if (key >> 3 == 0 || key >> 3 > 0x1FFFFFFF) fail(fmt::format("field number {}", key >> 3));
  field_ = static_cast<uint32_t>(key >> 3);
  switch (type_) {
    case kVarint:
      integer_ = varint();
      break;
    case k64:
      bytes_ = take(8);
      break;
    case kBytes:
      bytes_ = take(varint());
      break;
    case k32:
      bytes_ = take(4);
      break;
    default:
      fail(fmt::format("field {} has wire type {}; legal: 0, 1, 2, 5", field_, type_));
  }
  return true;
}

uint64_t WireReader::integer() const {
  if (type_ != kVarint) fail(fmt::format("field {} is not an integer", field_));
  return integer_;
}

float WireReader::number() const {
  if (type_ != k32) fail(fmt::format("field {} is not a 32-bit number", field_));
  float value = 0;
  std::memcpy(&value, bytes_.data(), sizeof(value));  // little endian, like all supported machines
  return value;
}

std::string_view WireReader::bytes() const {
  if (type_ != kBytes) fail(fmt::format("field {} is not a string", field_));
  return bytes_;
}

WireReader WireReader::message() const {
  const std::string_view inner = bytes();
  return {inner, where_, offset_ + static_cast<size_t>(inner.data() - message_.data())};
}

}  // namespace fp
