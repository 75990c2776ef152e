// Reads protobuf's wire format: a message is a row of (field number, value). Nothing is copied, every length is
// checked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fp {

class WireReader {
 public:
  // `where` names the file in errors; `offset` is where `message` begins in it.
  WireReader(std::string_view message, const std::string& where, size_t offset = 0)
      : message_(message), where_(where), offset_(offset) {}

  // Goes to the next field; false at the end. DataError when the message is malformed. The value is one of:
  bool next();
  uint32_t field() const { return field_; }
  uint64_t integer() const;        // varint
  float number() const;            // 32 bits
  std::string_view bytes() const;  // string or message inside
  WireReader message() const;      // bytes() as a message

  // DataError: "<where>, byte <n>: <what>".
  [[noreturn]] void fail(const std::string& what) const;

 private:
  enum Type : uint32_t { kVarint = 0, k64 = 1, kBytes = 2, k32 = 5 };
  uint64_t varint();
  std::string_view take(uint64_t size);

  std::string_view message_;
  const std::string& where_;
  size_t offset_, at_ = 0, field_at_ = 0;
  uint32_t field_ = 0, type_ = 0;
  uint64_t integer_ = 0;
  std::string_view bytes_;
};

}  // namespace fp
