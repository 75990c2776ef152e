// What ranks tell each other beside MPI: a verb and fields, one line of text.
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

  int64_t number(size_t field) const;  // 0 where there is none
  std::string text(size_t field) const { return field < fields.size() ? fields[field] : ""; }
  bool operator==(const PeerMessage&) const = default;
};

// Without the line break; any text is a legal field.
std::string encode(const PeerMessage&);
PeerMessage decode(std::string_view line);

// What a rank does, as a "beat".
PeerMessage beat_of(const CommRecord::Activity&);
CommRecord::Activity activity_of(const PeerMessage& beat);

}  // namespace fp
