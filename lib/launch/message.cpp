#include "launch/message.h"

#include <algorithm>
#include <charconv>

namespace fp {
namespace {

void append_escaped(std::string& line, std::string_view field) {
  for (const char c : field) {
    if (c == '\t')
      line += "\\t";
    else if (c == '\n')
      line += "\\n";
    else if (c == '\\')
      line += "\\\\";
    else
      line += c;
  }
}

std::string unescaped(std::string_view field) {
  std::string text;
  for (size_t i = 0; i < field.size(); ++i) {
    if (field[i] != '\\' || i + 1 == field.size()) {
      text += field[i];
      continue;
    }
    const char c = field[++i];
    text += c == 't' ? '\t' : c == 'n' ? '\n' : c;
  }
  return text;
}

}  // namespace

int64_t PeerMessage::number(size_t field) const {
  int64_t value = 0;
  if (field < fields.size()) std::from_chars(fields[field].data(), fields[field].data() + fields[field].size(), value);
  return value;
}

std::string encode(const PeerMessage& m) {
  std::string line = m.verb;
  for (const std::string& field : m.fields) {
    line += '\t';
    append_escaped(line, field);
  }
  return line;
}

PeerMessage decode(std::string_view line) {
  PeerMessage m;
  m.verb = line.substr(0, line.find('\t'));
  for (size_t at = m.verb.size(); at < line.size();) {
    const size_t end = std::min(line.find('\t', at + 1), line.size());
    m.fields.push_back(unescaped(line.substr(at + 1, end - at - 1)));
    at = end;
  }
  return m;
}

PeerMessage beat_of(const CommRecord::Activity& a) {
  PeerMessage beat{
      "beat",
      {a.phase, std::to_string(a.step), a.waiting ? "1" : "0", a.entry.group,
       std::to_string(static_cast<int>(a.entry.kind)), std::to_string(a.entry.sequence), std::to_string(a.progress)}};
  for (const CommRecord::Lane& lane : a.lanes)
    beat.fields.insert(beat.fields.end(), {lane.name, std::to_string(lane.issued), std::to_string(lane.finished)});
  return beat;
}

CommRecord::Activity activity_of(const PeerMessage& beat) {
  CommRecord::Activity a;
  a.phase = beat.text(0);
  a.step = beat.number(1);
  a.waiting = beat.number(2) != 0;
  const int64_t kind = beat.number(4);
  a.entry = {beat.text(3), kind >= 0 && kind < kCommKinds ? static_cast<CommKind>(kind) : CommKind::host,
             beat.number(5)};
  a.progress = static_cast<uint64_t>(std::max<int64_t>(beat.number(6), 0));
  for (size_t i = 7; i + 2 < beat.fields.size(); i += 3)
    a.lanes.push_back({beat.text(i), beat.number(i + 1), beat.number(i + 2)});
  return a;
}

}  // namespace fp
