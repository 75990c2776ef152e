// The messages of the lifeline: a verb and fields, encoded as one line of text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "comm/record.h"

namespace fp {

struct PeerMessage {
  std::string verb;
  std::vector<std::string> fields;

  int64_t number(size_t field) const;  // 0 if there is none
  std::string text(size_t field) const { return field < fields.size() ? fields[field] : ""; }
  bool operator==(const PeerMessage&) const = default;
};

// Encodes a message without the final line break; a field may hold any text.
std::string encode(const PeerMessage&);
PeerMessage decode(std::string_view line);

// Encodes the activity of a rank as a "beat".
PeerMessage beat_of(const CommRecord::Activity&);
CommRecord::Activity activity_of(const PeerMessage& beat);

}  // namespace fp
