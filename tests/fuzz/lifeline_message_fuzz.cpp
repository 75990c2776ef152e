#include <algorithm>
#include <string>
#include <string_view>

#include "base/error.h"
#include "launch/message.h"
#include "target.h"

// Any line as a message between ranks: encoding and decoding it again gives an equal message. The fields of a heartbeat
// may have any value.
FP_FUZZ_TARGET(lifeline_message) {
  const std::string_view text = fp_fuzz::text_of(data, size);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const fp::PeerMessage m = fp::decode(text.substr(begin, end - begin));
    FP_CHECK(fp::encode(m).find('\n') == std::string::npos, "a line break within a line");
    FP_CHECK(fp::decode(fp::encode(m)) == m, "'{}' became another message", fp::encode(m));
    const fp::CommRecord::Activity a = fp::activity_of(m);
    FP_CHECK(fp::beat_of(fp::activity_of(fp::beat_of(a))) == fp::beat_of(a), "'{}' became another beat", fp::encode(m));
    for (size_t field = 0; field < m.fields.size() + 1; ++field) m.number(field);
    begin = end + 1;
  }
  return 0;
}
