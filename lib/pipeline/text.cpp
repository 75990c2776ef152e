#include "pipeline/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "base/error.h"
#include "io/filesystem.h"

namespace fp {
namespace {

// PyTorch's letters, by ActionKind: its I (gradient of the input) is our B, its B (both gradients) is our D. Messages
// use PyTorch's.
constexpr std::array<std::string_view, kActionKinds> kNames = {
    "F", "I", "W", "B", "UNSHARD", "RESHARD", "SEND_F", "RECV_F", "SEND_B", "RECV_B", "REDUCE_GRAD"};
constexpr std::string_view kPair = ")OVERLAP_F_B";
constexpr std::string_view kLegal =
    "legal are 3F0, 3I0, 3W0, 3B0 (stage, kind, micro-batch), 3SEND_F0, 3RECV_F0, 3SEND_B0, 3RECV_B0, 3UNSHARD, "
    "3RESHARD, 3REDUCE_GRAD, each with u: before it for the second pipe, (3F1;2B0)OVERLAP_F_B and nothing";

bool has_micro_batch(ActionKind k) { return is_compute(k) || is_send(k) || is_receive(k); }

bool take_number(std::string_view& text, int& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  constexpr int kMost = 1'000'000'000;  // twice that and one more is an int
  if (error != std::errc() || number < 0 || number > kMost) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

bool parse_action(std::string_view text, Action& a) {
  if (text.substr(0, 2) == "u:") {
    a.pipe = 1;
    text.remove_prefix(2);
  }
  if (!take_number(text, a.stage)) return false;
  const std::string_view name = text.substr(0, text.find_first_of("0123456789"));
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return false;
  a.kind = static_cast<ActionKind>(found - kNames.begin());
  text.remove_prefix(name.size());
  return has_micro_batch(a.kind) ? take_number(text, a.micro_batch) && text.empty() : text.empty() && a.pipe == 0;
}

// Parses an action or a pair and appends it to the list.
bool parse_cell(std::string_view text, std::vector<Action>& list) {
  Action a, b;
  if (!text.starts_with('(')) {
    if (!parse_action(text, a)) return false;
    list.push_back(a);
    return true;
  }
  const size_t middle = text.find(';');
  if (!text.ends_with(kPair) || middle == text.npos) return false;
  const size_t end = text.size() - kPair.size();
  if (!parse_action(text.substr(1, middle - 1), a) || !parse_action(text.substr(middle + 1, end - middle - 1), b))
    return false;
  if (a.kind != ActionKind::forward || b.kind != ActionKind::backward) return false;
  a.paired_with_next = true;
  list.insert(list.end(), {a, b});
  return true;
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// Removes the next piece of text up to a separator, and the separator, and returns the piece.
std::string_view take_piece(std::string_view& text, char separator) {
  const size_t end = std::min(text.find(separator), text.size());
  const std::string_view piece = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return piece;
}

constexpr int64_t kMostStages = 1'000'000;
constexpr std::string_view kHeader = "# fptrain schedule:";

struct Parsed {
  Schedule schedule;
  bool has_header = false;
};

// "ranks=4 chunks=1 zigzag=0 two_way=0 micro_batches=8"
void parse_header(std::string_view text, int line, Parsed& parsed) {
  Schedule& s = parsed.schedule;
  int zigzag = 0, two_way = 0;
  const std::array<std::pair<std::string_view, int*>, 5> fields = {{{"ranks=", &s.placement.ranks},
                                                                    {"chunks=", &s.placement.chunks},
                                                                    {"zigzag=", &zigzag},
                                                                    {"two_way=", &two_way},
                                                                    {"micro_batches=", &s.micro_batches}}};
  bool good = true;
  for (const auto& [name, value] : fields) {
    text = trimmed(text);
    good = good && text.starts_with(name);
    if (good) text.remove_prefix(name.size());
    good = good && take_number(text, *value);
  }
  good = good && trimmed(text).empty() && zigzag <= 1 && two_way <= 1;
  s.placement.zigzag = zigzag == 1;
  s.placement.two_way = two_way == 1;
  good = good && s.placement.ranks >= 1 && s.placement.chunks >= 1 &&
         static_cast<int64_t>(s.placement.ranks) * s.placement.chunks <= kMostStages;
  if (!good || s.micro_batches % s.placement.pipes() != 0 || s.placement.ranks % s.placement.pipes() != 0)
    throw DataError(fmt::format(
        "{}:{}: a header is '{} ranks=4 chunks=2 zigzag=0 two_way=0 micro_batches=8', two ways with an even number "
        "of ranks and of micro-batches",
        s.kind, line, kHeader));
  parsed.has_header = true;
}

// Returns why an action contradicts the header; empty if it does not.
std::string misfit(const Schedule& s, const Action& a) {
  if (a.stage >= s.placement.stages()) return fmt::format("stages are 0 to {}", s.placement.stages() - 1);
  if (a.pipe >= s.placement.pipes()) return "there is one pipe";
  if (a.micro_batch >= s.of_pipe()) return fmt::format("micro-batches of a pipe are 0 to {}", s.of_pipe() - 1);
  return {};
}

void parse_row(std::string_view row, int line, Parsed& parsed) {
  std::vector<Action>& list = parsed.schedule.ranks.emplace_back();
  for (int cell = 1; !row.empty(); ++cell) {
    const std::string_view text = trimmed(take_piece(row, ','));
    const size_t before = list.size();
    std::string wrong;
    if (!text.empty() && !parse_cell(text, list)) wrong = fmt::format("is no action; {}", kLegal);
    for (size_t i = before; i < list.size() && parsed.has_header && wrong.empty(); ++i)
      wrong = misfit(parsed.schedule, list[i]);
    if (!wrong.empty())
      throw DataError(fmt::format("{}:{}: cell {}, '{}': {}", parsed.schedule.kind, line, cell, text, wrong));
  }
}

bool fits(const Placement& placement, const Schedule& s) {
  for (size_t r = 0; r < s.ranks.size(); ++r)
    for (const Action& a : s.ranks[r])
      if (has_micro_batch(a.kind) && placement.rank_of(a.pipe, a.stage) != static_cast<int>(r)) return false;
  return true;
}

// Infers placement and micro-batches from the cells.
void infer(Schedule& s) {
  int stages = 0, micro_batches = 0;
  Placement p;
  p.ranks = static_cast<int>(s.ranks.size());
  for (const auto& list : s.ranks)
    for (const Action& a : list) {
      stages = std::max(stages, a.stage + 1);
      micro_batches = std::max(micro_batches, a.micro_batch + 1);
      p.two_way = p.two_way || a.pipe == 1;
    }
  p.chunks = stages / p.ranks;
  if (stages == 0 || stages % p.ranks != 0)
    throw DataError(fmt::format("{}: {} stages are not a multiple of {} ranks (rows)", s.kind, stages, s.ranks.size()));
  p.zigzag = !fits(p, s);
  if (p.zigzag && !fits(p, s))
    throw DataError(fmt::format("{}: stages 0 to {} lie on {} ranks neither round after round nor there and back",
                                s.kind, stages - 1, p.ranks));
  if (p.two_way && p.ranks % 2 != 0)
    throw DataError(fmt::format("{}: {} ranks; a schedule of two ways needs an even number", s.kind, p.ranks));
  s.placement = p;
  s.micro_batches = micro_batches * p.pipes();
}

}  // namespace

std::string to_text(const Action& a) {
  std::string text = fmt::format("{}{}{}", a.pipe == 1 ? "u:" : "", a.stage, kNames[static_cast<size_t>(a.kind)]);
  return has_micro_batch(a.kind) ? text + std::to_string(a.micro_batch) : text;
}

std::string to_csv(const Schedule& s) {
  const Placement& p = s.placement;
  std::string csv = fmt::format("{} ranks={} chunks={} zigzag={} two_way={} micro_batches={}\n", kHeader, p.ranks,
                                p.chunks, p.zigzag ? 1 : 0, p.two_way ? 1 : 0, s.micro_batches);
  for (const auto& list : s.ranks) {
    for (size_t i = 0; i < list.size(); ++i) {
      if (i > 0) csv += ',';
      const bool pair = list[i].paired_with_next && i + 1 < list.size();
      csv += pair ? fmt::format("({};{}{}", to_text(list[i]), to_text(list[i + 1]), kPair) : to_text(list[i]);
      if (pair) ++i;
    }
    csv += '\n';
  }
  return csv;
}

Schedule schedule_from_csv(const std::string& text, const std::string& name) {
  Parsed parsed;
  Schedule& s = parsed.schedule;
  s.kind = name;
  std::string_view rest = text;
  size_t cells = 0;
  for (int line = 1; !rest.empty(); ++line) {
    const std::string_view row = trimmed(take_piece(rest, '\n'));
    if (row.starts_with(kHeader) && s.ranks.empty())
      parse_header(row.substr(kHeader.size()), line, parsed);
    else if (!row.empty() && !row.starts_with('#'))
      parse_row(row, line, parsed);
  }
  for (const auto& list : s.ranks) cells += list.size();
  if (s.ranks.empty() || cells == 0) throw DataError(fmt::format("{}: no rows of actions", name));
  if (!parsed.has_header) infer(s);
  if (static_cast<int>(s.ranks.size()) != s.placement.ranks)
    throw DataError(fmt::format("{}: {} rows for {} ranks", name, s.ranks.size(), s.placement.ranks));
  // Every stage needs an F for every micro-batch: larger numbers are typing errors and would only cost memory.
  if (static_cast<double>(s.placement.stages()) * s.micro_batches > static_cast<double>(cells))
    throw DataError(fmt::format("{}: {} actions are too few for {} stages and {} micro-batches", name, cells,
                                s.placement.stages(), s.micro_batches));
  return s;
}

Schedule load_schedule(const std::filesystem::path& path) { return schedule_from_csv(read_file(path), path.string()); }

}  // namespace fp
