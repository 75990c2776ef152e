#include "launch/slurm.h"

#include <charconv>
#include <condition_variable>
#include <mutex>

#include "base/error.h"
#include "base/program.h"

namespace fp {
namespace {

constexpr double kMinute = 60, kHour = 3600, kDay = 86400, kForever = std::numeric_limits<double>::infinity();

std::optional<int64_t> whole(std::string_view text) {
  int64_t value = -1;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && stop == text.data() + text.size() && value >= 0 ? std::optional(value) : std::nullopt;
}

// Parses up to three numbers separated by colons.
std::optional<std::vector<double>> numbers(std::string_view text) {
  std::vector<double> list;
  while (true) {
    const size_t colon = text.find(':');
    const auto value = whole(text.substr(0, colon));
    if (!value || list.size() == 3) return {};
    list.push_back(static_cast<double>(*value));
    if (colon == std::string_view::npos) return list;
    text.remove_prefix(colon + 1);
  }
}

// Parses the days before a '-' and removes both from `text`.
std::optional<double> days(std::string_view& text) {
  const size_t dash = text.find('-');
  const auto value = whole(text.substr(0, dash));
  if (value) text.remove_prefix(dash + 1);
  return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view spaces = " \t\r\n";
  const size_t first = text.find_first_not_of(spaces);
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(spaces) - first + 1);
}

std::optional<int64_t> number_of(const Variables& variable, const char* name) {
  const std::optional<std::string> text = variable(name);
  if (!text) return {};
  if (const auto value = whole(*text)) return value;
  throw ConfigError(fmt::format("environment variable {}='{}' is not a whole number of 0 or more", name, *text));
}

}  // namespace

std::optional<SlurmJob> slurm_job(const Variables& variable) {
  const std::optional<std::string> id = variable("SLURM_JOB_ID");
  if (!id || id->empty()) return {};
  SlurmJob job{*id, number_of(variable, "SLURM_RESTART_COUNT").value_or(0)};
  if (const auto ends = number_of(variable, "SLURM_JOB_END_TIME")) job.ends = static_cast<double>(*ends);
  return job;
}

std::optional<double> parse_time_left(std::string_view text) {
  text = trimmed(text.substr(0, text.find('\n')));
  if (text == "UNLIMITED") return kForever;
  const bool has_days = text.find('-') != std::string_view::npos;
  const auto d = has_days ? days(text) : 0.0;
  const auto n = numbers(text);
  if (!d || !n || n->size() < 2 || (has_days && n->size() < 3)) return {};
  const double hours = n->size() == 3 ? n->front() : 0;
  return *d * kDay + hours * kHour + n->at(n->size() - 2) * kMinute + n->back();
}

std::optional<double> parse_time_limit(std::string_view text) {
  if (text == "UNLIMITED" || text == "INFINITE" || text == "0") return kForever;
  if (text.find('-') == std::string_view::npos) {
    const auto n = numbers(text);
    if (!n) return {};
    if (n->size() == 3) return n->at(0) * kHour + n->at(1) * kMinute + n->at(2);
    return n->at(0) * kMinute + (n->size() == 2 ? n->at(1) : 0);
  }
  const auto d = days(text);
  const auto n = numbers(text);
  if (!d || !n) return {};
  const auto at = [&](size_t i) { return i < n->size() ? n->at(i) : 0; };
  return *d * kDay + at(0) * kHour + at(1) * kMinute + at(2);
}

std::optional<std::string> ask_program(const std::vector<std::string>& command, const std::stop_token& stop,
                                       std::chrono::seconds limit) {
  const auto output = run_program(command, limit, stop);
  return output && output->code == 0 ? std::optional(output->text) : std::nullopt;
}

JobClock::JobClock(const SlurmJob& job, Ask ask_command, std::chrono::milliseconds every, std::function<double()> now)
    : now_(std::move(now)) {
  if (job.ends) ends_ = *job.ends;
  thread_ = std::jthread([this, job, ask_command = std::move(ask_command), every](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    do ask(job, ask_command, stop);
    while (!wake.wait_for(lock, stop, every, [&] { return stop.stop_requested(); }));
  });
}

void JobClock::ask(const SlurmJob& job, const Ask& ask_command, const std::stop_token& stop) {
  const auto text = ask_command({"squeue", "--noheader", "--jobs=" + job.id, "--format=%L"}, stop);
  if (const auto left = text ? parse_time_left(*text) : std::nullopt) ends_ = now_() + *left;
}

double JobClock::left() const { return ends_ - now_(); }

}  // namespace fp
