#include "report/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <map>
#include <variant>
#include <vector>

#include "base/error.h"
#include "io/filesystem.h"
#include "io/retry.h"

namespace fp {
namespace {

using Member = std::variant<int64_t StepMetrics::*, double StepMetrics::*, std::optional<double> StepMetrics::*,
                            bool StepMetrics::*>;

struct Field {
  std::string_view key;
  Member member;
  int digits = 0;  // significant digits of a double
};

// Each key is declared once, in the order of the file; reading and writing both follow this table.
const std::array<Field, 25> kFields{{{"step", &StepMetrics::step},
                                     {"loss", &StepMetrics::loss, 9},
                                     {"lr", &StepMetrics::lr, 9},
                                     {"grad_norm", &StepMetrics::grad_norm, 9},
                                     {"tokens", &StepMetrics::tokens},
                                     {"tokens_per_s", &StepMetrics::tokens_per_s, 6},
                                     {"step_ms", &StepMetrics::step_ms, 6},
                                     {"mfu", &StepMetrics::mfu, 4},
                                     {"peak_bytes", &StepMetrics::peak_bytes},
                                     {"consumed_samples", &StepMetrics::consumed_samples},
                                     {"elapsed_s", &StepMetrics::elapsed_s, 9},
                                     {"val_loss", &StepMetrics::val_loss, 9},
                                     {"val_perplexity", &StepMetrics::val_perplexity, 9},
                                     {"val_bits_per_byte", &StepMetrics::val_bits_per_byte, 9},
                                     {"margin", &StepMetrics::margin, 6},
                                     {"accuracy", &StepMetrics::accuracy, 6},
                                     {"val_margin", &StepMetrics::val_margin, 6},
                                     {"val_accuracy", &StepMetrics::val_accuracy, 6},
                                     {"predicted_step_ms", &StepMetrics::predicted_step_ms, 6},
                                     {"predicted_peak_bytes", &StepMetrics::predicted_peak_bytes, 15},
                                     {"between_nodes_bytes", &StepMetrics::between_nodes_bytes, 15},
                                     {"widened_parameters", &StepMetrics::widened_parameters, 15},
                                     {"gradient_error", &StepMetrics::gradient_error, 6},
                                     {"skipped", &StepMetrics::skipped},
                                     {"resumed", &StepMetrics::resumed}}};

// Each item of a map has its own key: "sent_bytes.data.all_reduce", "val_loss.books". Labels have no escaped
// characters.
constexpr std::string_view kSentPrefix = "sent_bytes.";

struct MapField {
  std::string_view prefix;
  std::map<std::string, double> StepMetrics::*member;
};
const std::array<MapField, 4> kMaps{{{"val_loss.", &StepMetrics::val_loss_of},
                                     {"val_bits_per_byte.", &StepMetrics::val_bits_per_byte_of},
                                     {"val_loss_at.", &StepMetrics::val_loss_at},
                                     {"val_loss_error_at.", &StepMetrics::val_loss_error_at}}};

std::string number(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}g}", value, digits) : "null";
}

// Returns the text of a field; empty if it is omitted.
std::string text_of(const Field& field, const StepMetrics& m) {
  if (const auto* p = std::get_if<int64_t StepMetrics::*>(&field.member)) return std::to_string(m.**p);
  if (const auto* p = std::get_if<double StepMetrics::*>(&field.member)) return number(m.**p, field.digits);
  if (const auto* p = std::get_if<bool StepMetrics::*>(&field.member)) return m.**p ? "true" : "";
  const auto& optional = m.*std::get<std::optional<double> StepMetrics::*>(field.member);
  return optional ? number(*optional, field.digits) : "";
}

// Parses flat JSON objects, much faster than io/json.h for histories of a million lines. Nested values are refused, and
// duplicate keys as in io/json.h.
class LineParser {
 public:
  explicit LineParser(std::string_view text) : text_(text) {}

  bool parse(StepMetrics& metrics) {
    if (!take('{')) return false;
    bool has_step = false, has_loss = false;
    do {
      std::string_view key;
      if (!string(key) || !take(':')) return false;
      has_step |= key == "step";
      has_loss |= key == "loss";
      if (key.starts_with(kSentPrefix)) {
        const auto [at, is_new] = metrics.sent_bytes.emplace(key.substr(kSentPrefix.size()), 0);
        if (!is_new || !number(at->second)) return false;
      } else if (const auto map =
                     std::ranges::find_if(kMaps, [&](const MapField& m) { return key.starts_with(m.prefix); });
                 map != kMaps.end()) {
        const auto [at, is_new] = (metrics.*(map->member)).emplace(key.substr(map->prefix.size()), 0.0);
        if (!is_new || !real(at->second)) return false;
      } else if (const Field* field = find(key); is_second(field) || !value(field, metrics)) {
        return false;
      }
    } while (take(','));
    return take('}') && at_end() && has_step && has_loss;
  }

 private:
  static const Field* find(std::string_view key) {
    for (const Field& field : kFields)
      if (field.key == key) return &field;
    return nullptr;
  }

  // True if a known key occurred earlier in the line.
  bool is_second(const Field* field) {
    if (field == nullptr) return false;
    const uint64_t bit = uint64_t{1} << (field - kFields.data());
    const bool known = (seen_ & bit) != 0;
    seen_ |= bit;
    return known;
  }

  void skip_space() {
    while (!text_.empty() && std::strchr(" \t\r", text_.front()) != nullptr) text_.remove_prefix(1);
  }
  bool at_end() {
    skip_space();
    return text_.empty();
  }
  bool take(char c) {
    skip_space();
    if (text_.empty() || text_.front() != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool take(std::string_view word) {
    skip_space();
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }

  // Escapes are skipped, not decoded: no known key has one.
  bool string(std::string_view& out) {
    if (!take('"')) return false;
    for (size_t i = 0; i < text_.size(); ++i) {
      if (text_[i] == '\\') {
        ++i;
      } else if (text_[i] == '"') {
        out = text_.substr(0, i);
        text_.remove_prefix(i + 1);
        return true;
      }
    }
    return false;
  }

  template <class T>
  bool number(T& out) {
    skip_space();
    // from_chars also accepts "nan" and "inf", which JSON does not have.
    const size_t digit = text_.starts_with('-') ? 1 : 0;
    if (text_.size() <= digit || text_[digit] < '0' || text_[digit] > '9') return false;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), out);
    if (error != std::errc{}) return false;
    text_.remove_prefix(static_cast<size_t>(end - text_.data()));
    return true;
  }

  bool real(double& out) {
    if (take("null")) {
      out = StepMetrics::kUnknown;
      return true;
    }
    return number(out);
  }

  bool boolean(bool& out) {
    out = take("true");
    return out || take("false");
  }

  bool value(const Field* field, StepMetrics& m) {
    if (field == nullptr) {
      std::string_view ignored_text;
      double ignored_number = 0;
      bool ignored_flag = false;
      skip_space();
      if (text_.starts_with('"')) return string(ignored_text);
      return real(ignored_number) || boolean(ignored_flag);
    }
    if (const auto* p = std::get_if<int64_t StepMetrics::*>(&field->member)) return number(m.**p);
    if (const auto* p = std::get_if<double StepMetrics::*>(&field->member)) return real(m.**p);
    if (const auto* p = std::get_if<bool StepMetrics::*>(&field->member)) return boolean(m.**p);
    return real((m.*std::get<std::optional<double> StepMetrics::*>(field->member)).emplace());
  }

  std::string_view text_;
  uint64_t seen_ = 0;  // bit i: kFields[i] has occurred
};

// The history is damaged: an invalid line is followed by valid ones, or steps do not increase.
struct BrokenHistory : DataError {
  using DataError::DataError;
};

// Reads the lines of a file, holding at most kLongest bytes of each.
class Lines {
 public:
  explicit Lines(const std::filesystem::path& file) : file_(file), buffer_(kLongest, '\0') {
    with_retries([&] {
      in_.open(file, std::ios::binary);
      if (!in_) fail_reading("open", file, errno);
    });
  }
  // Returns false at the end of the file. A line that is too long is truncated, and so not a complete JSON object.
  bool next(std::string_view& line) {
    in_.getline(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
    const auto taken = in_.gcount();
    if (taken == 0 && !in_.good()) return false;
    bytes_ = taken;
    const bool too_long = in_.fail() && !in_.eof() && !in_.bad();
    is_whole_ = !in_.fail() && !in_.eof();
    line = std::string_view(buffer_.data(), static_cast<size_t>(taken) - (is_whole_ ? 1 : 0));
    if (too_long) {
      in_.clear();
      in_.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
      bytes_ += in_.gcount();
    }
    return true;
  }
  bool is_whole() const { return is_whole_; }  // the line ends with a line break
  int64_t bytes() const { return bytes_; }     // size of the line with its line break
  // To getline() a failed read looks like the end of the file.
  void require_read_whole() const {
    if (in_.bad()) throw InfrastructureError(fmt::format("{}: cannot be read to its end", file_.string()));
  }

 private:
  static constexpr size_t kLongest = size_t{1} << 20;
  std::filesystem::path file_;
  std::ifstream in_;
  std::string buffer_;
  bool is_whole_ = false;
  int64_t bytes_ = 0;
};

// Visits the metrics of every valid line with the file offset of its end.
void scan(const std::filesystem::path& file, const std::function<void(const StepMetrics&, int64_t)>& visit) {
  Lines lines(file);
  std::string_view line;
  int64_t end = 0, number = 0, broken = 0, last = -1;
  while (lines.next(line)) {
    ++number;
    end += lines.bytes();
    const std::optional<StepMetrics> metrics = lines.is_whole() ? parse_json_line(line) : std::nullopt;
    if (!metrics) {
      if (broken == 0) broken = number;
      continue;
    }
    if (broken != 0)
      throw BrokenHistory(fmt::format("{}:{}: not a metrics object, but valid lines follow", file.string(), broken));
    if (metrics->step <= last)
      throw BrokenHistory(fmt::format("{}:{}: step {} comes after step {}; steps must increase", file.string(), number,
                                      metrics->step, last));
    last = metrics->step;
    visit(*metrics, end);
  }
  lines.require_read_whole();
}

struct HistoryLine {
  std::string text;  // including its line break
  StepMetrics metrics;
};

// Returns a longest subsequence of lines with increasing steps; of two lines with the same step the later one.
std::vector<const HistoryLine*> growing_lines(const std::vector<HistoryLine>& lines) {
  constexpr size_t kNone = std::numeric_limits<size_t>::max();
  std::vector<size_t> ends;  // ends[n]: the line with the lowest step that ends a chain of n + 1
  std::vector<size_t> before(lines.size(), kNone);
  for (size_t i = 0; i < lines.size(); ++i) {
    const auto at = std::lower_bound(ends.begin(), ends.end(), lines[i].metrics.step,
                                     [&](size_t line, int64_t step) { return lines[line].metrics.step < step; });
    if (at != ends.begin()) before[i] = *std::prev(at);
    if (at == ends.end())
      ends.push_back(i);
    else
      *at = i;
  }
  std::vector<const HistoryLine*> chain;
  for (size_t i = ends.empty() ? kNone : ends.back(); i != kNone; i = before[i]) chain.push_back(&lines[i]);
  std::reverse(chain.begin(), chain.end());
  return chain;
}

}  // namespace

std::string to_json_line(const StepMetrics& metrics) {
  std::string line = "{";
  for (const Field& field : kFields) {
    const std::string text = text_of(field, metrics);
    if (!text.empty()) line += fmt::format("{}\"{}\":{}", line.size() > 1 ? "," : "", field.key, text);
  }
  for (const MapField& map : kMaps)
    for (const auto& [label, value] : metrics.*(map.member))
      line += fmt::format(",\"{}{}\":{}", map.prefix, label, number(value, 9));
  for (const auto& [what, bytes] : metrics.sent_bytes) line += fmt::format(",\"{}{}\":{}", kSentPrefix, what, bytes);
  return line + "}";
}

std::optional<StepMetrics> parse_json_line(std::string_view line) {
  StepMetrics metrics;
  if (!LineParser(line).parse(metrics) || metrics.step < 0 || metrics.step > kMaxStep) return std::nullopt;
  return metrics;
}

void for_each_step(const std::filesystem::path& file, const std::function<void(const StepMetrics&)>& visit) {
  scan(file, [&](const StepMetrics& metrics, int64_t) { visit(metrics); });
}

MetricsWriter::MetricsWriter(const std::filesystem::path& file, int64_t resume_step) : mark_resumed_(resume_step > 0) {
  int64_t keep = 0;
  try {
    if (std::filesystem::exists(file))
      scan(file, [&](const StepMetrics& metrics, int64_t end) {
        if (metrics.step == resume_step + 1) next_before_ = metrics;
        if (metrics.step > resume_step) return;
        keep = end;
        last_ = metrics;
      });
  } catch (const BrokenHistory& e) {
    keep = begin_anew(file, resume_step, e.what());
  }
  file_.emplace(file, keep);
}

// Sets the damaged file aside and writes its valid lines to a new one, whose size it returns.
int64_t MetricsWriter::begin_anew(const std::filesystem::path& file, int64_t resume_step, const std::string& damage) {
  last_.reset();
  next_before_.reset();
  std::vector<HistoryLine> good;
  int64_t wanted = 0;
  Lines lines(file);
  for (std::string_view line; lines.next(line);) {
    const std::optional<StepMetrics> metrics = lines.is_whole() ? parse_json_line(line) : std::nullopt;
    if (metrics && metrics->step == resume_step + 1) next_before_ = metrics;
    if (metrics && metrics->step > resume_step) continue;
    ++wanted;
    if (metrics) good.push_back({std::string(line) + "\n", *metrics});
  }
  lines.require_read_whole();
  std::string text;
  const std::vector<const HistoryLine*> sound = growing_lines(good);
  for (const HistoryLine* line : sound) text += line->text;
  if (!sound.empty()) last_ = sound.back()->metrics;
  const std::filesystem::path aside = set_aside_broken(file);
  write_file_atomically(file, text);
  repair_ = fmt::format("{}; the file is kept as {}, and a new one begins with {} of its {} lines up to step {}",
                        damage, aside.filename().string(), sound.size(), wanted, resume_step);
  return static_cast<int64_t>(text.size());
}

void MetricsWriter::append(StepMetrics metrics) {
  FP_CHECK(!last_ || metrics.step > last_->step, "metrics: step {} after step {}", metrics.step, last_->step);
  metrics.resumed = mark_resumed_;
  mark_resumed_ = false;
  last_ = metrics;
  file_->append(to_json_line(metrics) + "\n");
}

}  // namespace fp
