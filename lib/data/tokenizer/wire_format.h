// Reads protobuf's wire format: a message is a sequence of (field number, value). Nothing is copied; every length is
// checked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fp {

class WireReader {
 public:
  // `where` names the file in errors; `offset` is the position of `message` in it. Keeps references to both texts.
  WireReader(std::string_view message, const std::string& where, size_t offset = 0)
      : message_(message), where_(where), offset_(offset) {}

  // Advances to the next field; returns false at the end. Throws DataError when the message is malformed. The functions
  // below return the value of the field, or call fail() when it has another type.
  bool next();
  uint32_t field() const { return field_; }
  uint64_t integer() const;        // varint
  float number() const;            // 32 bits
  std::string_view bytes() const;  // string or nested message
  WireReader message() const;      // bytes() as a message

  // Throws DataError: "<where>, byte <n>: <what>".
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
