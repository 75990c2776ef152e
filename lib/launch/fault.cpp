#include "launch/fault.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "base/error.h"
#include "base/log.h"

namespace fp {
namespace {

constexpr std::array<std::string_view, 7> kKinds{"throw", "sleep", "kill", "stop", "flip", "slow", "outlier"};
constexpr std::array<std::string_view, 4> kFlipped{"weights", "moments", "gradients", "sums"};

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw ConfigError(
      fmt::format("FPTRAIN_FAULT='{}': {}; write rank=R,step=S,phase=PHASE,kind=throw|sleep|kill|stop, kind=slow,ms=N, "
                  "kind=outlier,what=PARAMETER,element=CHANNEL,factor=F or "
                  "rank=R,step=S,kind=flip,what=weights|moments|gradients|sums,element=E,bit=B",
                  text, why));
}

bool read_positive(std::string_view text, double& value) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && stop == text.data() + text.size() && value > 0 && std::isfinite(value);
}

template <class Int>
bool read_whole(std::string_view text, Int& value) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && stop == text.data() + text.size() && value >= 0;
}

bool read_kind(std::string_view text, Fault::Kind& kind) {
  for (size_t i = 0; i < kKinds.size(); ++i) {
    if (kKinds[i] != text) continue;
    kind = static_cast<Fault::Kind>(i);
    return true;
  }
  return false;
}

bool faults_allowed = false;

const char* fault_text() {
  const char* text = std::getenv("FPTRAIN_FAULT");
  return text == nullptr || *text == '\0' ? nullptr : text;
}

const std::optional<Fault>& requested() {
  static const std::optional<Fault> fault =
      faults_allowed && fault_text() != nullptr ? std::optional<Fault>(parse_fault(fault_text())) : std::nullopt;
  return fault;
}

}  // namespace

Fault parse_fault(std::string_view text) {
  Fault fault;
  bool has_rank = false, has_step = false, has_kind = false, has_ms = false, has_place = false, has_bit = false,
       has_factor = false;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view item = text.substr(at, comma - at);
    at = comma + 1;
    const size_t equals = item.find('=');
    const std::string_view key = item.substr(0, equals);
    const std::string_view value = equals == std::string_view::npos ? "" : item.substr(equals + 1);
    bool legal = true;
    if (key == "rank")
      legal = has_rank = read_whole(value, fault.rank);
    else if (key == "step")
      legal = has_step = read_whole(value, fault.step);
    else if (key == "kind")
      legal = has_kind = read_kind(value, fault.kind);
    else if (key == "ms")
      legal = has_ms = read_whole(value, fault.ms);
    else if (key == "what")
      fault.what = value, has_place = true;
    else if (key == "element")
      legal = has_place = read_whole(value, fault.element);
    else if (key == "bit")
      legal = has_bit = read_whole(value, fault.bit) && fault.bit < 32;
    else if (key == "factor")
      legal = has_factor = read_positive(value, fault.factor);
    else if (key == "phase")
      fault.phase = value;
    else
      refuse(text, fmt::format("unknown key '{}'", key));
    if (!legal) refuse(text, fmt::format("bad value '{}'", item));
  }
  const auto is = [&](Fault::Kind kind) { return has_kind && fault.kind == kind; };
  const bool slow = is(Fault::Kind::slow), flip = is(Fault::Kind::flip), outlier = is(Fault::Kind::outlier);
  if (slow && (!has_ms || has_rank || has_step)) refuse(text, "kind=slow takes ms, but neither rank nor step");
  if (!slow && has_ms) refuse(text, "ms is for slow");
  if (has_place && !flip && !outlier) refuse(text, "what and element require kind=flip or kind=outlier");
  if (has_bit && !flip) refuse(text, "bit requires kind=flip");
  if (has_factor && !outlier) refuse(text, "factor requires kind=outlier");
  if (flip && (std::ranges::find(kFlipped, fault.what) == kFlipped.end() || fault.phase != "step"))
    refuse(text, fmt::format("kind=flip takes what={}, and the only legal phase is step", fmt::join(kFlipped, "|")));
  if (outlier && (fault.what.empty() || !has_factor || has_rank || has_step))
    refuse(text, "kind=outlier takes what and factor, but neither rank nor step");
  if (!slow && !outlier && (!has_rank || !has_step || !has_kind)) refuse(text, "rank, step and kind are needed");
  return fault;
}

void allow_faults() { faults_allowed = true; }

void check_fault_request() {
  if (fault_text() != nullptr && !faults_allowed)
    throw ConfigError(
        fmt::format("FPTRAIN_FAULT='{}' is set in the environment, but --allow-faults is not given: nothing would be "
                    "injected. Legal: fptrain train --allow-faults, or no FPTRAIN_FAULT",
                    fault_text()));
  requested();
}

std::chrono::milliseconds slow_disk() {
  const std::optional<Fault>& fault = requested();
  return std::chrono::milliseconds(fault && fault->kind == Fault::Kind::slow ? fault->ms : 0);
}

std::optional<Fault> gradient_outlier() {
  const std::optional<Fault>& fault = requested();
  return fault && fault->kind == Fault::Kind::outlier ? fault : std::nullopt;
}

std::optional<Fault> flip_due(int rank, int64_t step) {
  static bool done = false;
  const std::optional<Fault>& fault = requested();
  if (!fault || done || fault->kind != Fault::Kind::flip || fault->rank != rank || fault->step != step)
    return std::nullopt;
  done = true;
  log::warning("fault injected by FPTRAIN_FAULT: bit {} of element {} of the {} flips before step {}", fault->bit,
               fault->element, fault->what, step + 1);
  return fault;
}

void maybe_fault(int rank, int64_t step, std::string_view phase) {
  static bool done = false;
  const std::optional<Fault>& fault = requested();
  if (!fault || done || fault->kind >= Fault::Kind::flip || fault->rank != rank || fault->step != step ||
      fault->phase != phase)
    return;
  done = true;
  const std::string what = fmt::format("fault injected by FPTRAIN_FAULT: {}", kKinds[static_cast<size_t>(fault->kind)]);
  log::warning("{} at step {}, phase {}", what, step, phase);
  switch (fault->kind) {
    case Fault::Kind::raise:
      throw DataError(what);
    case Fault::Kind::sleep:
      for (;;) ::pause();
    case Fault::Kind::kill:
      ::raise(SIGKILL);
      break;
    case Fault::Kind::stop:
      ::raise(SIGSTOP);
      break;
    case Fault::Kind::flip:
    case Fault::Kind::slow:
    case Fault::Kind::outlier:
      break;
  }
}

}  // namespace fp
