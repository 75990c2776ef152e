// The schedule kinds, the requests that each supports, and the defaults for what a request leaves open.
#include <array>
#include <numeric>

#include "base/error.h"
#include "pipeline/orders.h"

namespace fp {
namespace {

constexpr std::array kKinds = {
    ScheduleKind{.kind = PipelineSchedule::gpipe, .order = gpipe_order},
    ScheduleKind{.kind = PipelineSchedule::one_f_one_b, .order = one_f_one_b_order},
    ScheduleKind{.kind = PipelineSchedule::interleaved, .order = interleaved_order, .chunks = 2, .any_chunks = true},
    ScheduleKind{.kind = PipelineSchedule::bfs, .order = breadth_first_order, .chunks = 2, .any_chunks = true},
    ScheduleKind{.kind = PipelineSchedule::zb_h1, .order = zb_h1_order, .split = true},
    ScheduleKind{.kind = PipelineSchedule::zb_h2, .order = zb_h2_order, .split = true},
    ScheduleKind{.kind = PipelineSchedule::zb_v, .order = zb_v_order, .chunks = 2, .zigzag = true, .split = true},
    ScheduleKind{.kind = PipelineSchedule::interleaved_zb,
                 .order = interleaved_zb_order,
                 .chunks = 2,
                 .any_chunks = true,
                 .split = true},
    ScheduleKind{.kind = PipelineSchedule::chimera, .order = chimera_order, .two_way = true},
    ScheduleKind{
        .kind = PipelineSchedule::bitpipe, .order = bitpipe_order, .chunks = 2, .zigzag = true, .two_way = true},
    ScheduleKind{.kind = PipelineSchedule::dualpipe, .order = dualpipe_order, .two_way = true, .split = true},
    ScheduleKind{
        .kind = PipelineSchedule::dualpipev, .order = dualpipev_order, .chunks = 2, .zigzag = true, .split = true},
    ScheduleKind{
        .kind = PipelineSchedule::zeropp, .order = zeropp_order, .chunks = 2, .any_chunks = true, .split = true},
    ScheduleKind{.kind = PipelineSchedule::wave, .chunks = 2, .any_chunks = true, .zigzag = true},
};

constexpr bool in_order_of_kinds() {
  for (size_t i = 0; i < kKinds.size(); ++i)
    if (kKinds[i].kind != static_cast<PipelineSchedule>(i)) return false;
  return true;
}
static_assert(in_order_of_kinds());

[[noreturn]] void refuse(const ScheduleRequest& q, const std::string& what, const std::string& legal) {
  throw ConfigError(fmt::format("schedule {} of {} rank{} cannot have {}; use {}", q.kind, q.ranks,
                                q.ranks == 1 ? "" : "s", what, legal));
}

// "4, 8, 12, ..."
std::string multiples(int of, int first = 1) {
  return fmt::format("{}, {}, {}, ...", first * of, (first + 1) * of, (first + 2) * of);
}

// "4, 6, 8", or the first of many.
std::string some(const std::vector<int>& values) {
  constexpr size_t kMost = 8;
  if (values.size() <= kMost) return fmt::format("{}", fmt::join(values, ", "));
  return fmt::format("{}, ...", fmt::join(values.begin(), values.begin() + kMost, ", "));
}

// The divisors of m that are at least `least`.
std::string divisors(int m, int least) {
  std::vector<int> found;
  for (int d = least; d <= m; ++d)
    if (m % d == 0) found.push_back(d);
  return some(found);
}

std::string micro_batches(int m) { return fmt::format("{} micro-batch{}", m, m == 1 ? "" : "es"); }

void check_place(const ScheduleRequest& q, const ScheduleKind& kind) {
  if (q.ranks < 1) throw ConfigError(fmt::format("schedule {}: {} ranks; use 1 or more", q.kind, q.ranks));
  if (kind.two_way && q.ranks % 2 != 0)
    throw ConfigError(
        fmt::format("schedule {} cannot have {} ranks; use an even number: 2, 4, 6, ...", q.kind, q.ranks));
  if (!kind.any_chunks && q.chunks != kind.chunks)
    refuse(q, fmt::format("{} chunks a rank", q.chunks), std::to_string(kind.chunks));
  if (q.chunks < 1) refuse(q, fmt::format("{} chunks a rank", q.chunks), "1 or more");
  if (kind.zigzag && q.chunks % 2 != 0)
    refuse(q, fmt::format("{} chunks a rank", q.chunks), "two a wave: 2, 4, 6, ...");
}

void check_amount(const ScheduleRequest& q) {
  if (q.micro_batches < 1) refuse(q, micro_batches(q.micro_batches), "1 or more");
  constexpr double kMost = 1e8;
  if (static_cast<double>(q.ranks) * q.chunks * q.micro_batches > kMost)
    refuse(q, fmt::format("{} of {} chunks", micro_batches(q.micro_batches), q.chunks),
           fmt::format("at most {:.0g} stages x micro-batches", kMost));
}

// An option of one kind must not be set for another.
void check_options(const ScheduleRequest& q, const ScheduleKind& kind) {
  const auto only = [&](const char* name, int value, bool known, const char* owners) {
    if (value != 0 && !known)
      throw ConfigError(fmt::format("schedule {} has no {} (is {}); it is for {}", q.kind, name, value, owners));
    if (value < 0) refuse(q, fmt::format("{} = {}", name, value), "1 or more, or 0 for its own");
  };
  const bool groups = q.kind == PipelineSchedule::interleaved || q.kind == PipelineSchedule::interleaved_zb;
  only("group", q.group, groups, "interleaved and interleaved-zb");
  only("unit size", q.unit_size, q.kind == PipelineSchedule::zeropp, "zeropp");
  only("warm-up", q.warmup, q.kind == PipelineSchedule::zeropp, "zeropp");
  only("window", q.window, q.kind == PipelineSchedule::wave, "wave");
  only("memory cap", q.memory_cap, q.w_pass, "schedules whose weight gradients are split off");
  if (q.w_pass && kind.split)
    throw ConfigError(
        fmt::format("schedule {} has its weight gradients split off already: leave the W pass out", q.kind));
}

void complete_interleaved(ScheduleRequest& q) {
  const int m = q.micro_batches, p = q.ranks;
  if (q.group == 0) q.group = p;
  const auto legal = [&](int g) { return g >= p && g <= m && (m % g == 0 || m % g >= p); };
  if (legal(q.group)) return;
  std::vector<int> groups;
  for (int g = p; g <= m; ++g)
    if (legal(g)) groups.push_back(g);
  if (groups.empty()) refuse(q, micro_batches(m), fmt::format("{} or more", p));
  refuse(q, fmt::format("{} in groups of {}", micro_batches(m), q.group),
         fmt::format("groups of {}, or a multiple of {} micro-batches", some(groups), std::max(q.group, p)));
}

void complete_interleaved_zb(ScheduleRequest& q) {
  const int m = q.micro_batches, least = std::min(q.ranks, m);
  if (q.group == 0) {
    const int rounds = std::max(1, m / q.ranks);
    if (m % rounds != 0)
      refuse(q, fmt::format("{} in {} equal groups", micro_batches(m), rounds),
             fmt::format("a group of {}, or a multiple of {} micro-batches", divisors(m, least), q.ranks));
    q.group = m / rounds;
  }
  if (q.group < least || m % q.group != 0)
    refuse(q, fmt::format("{} in groups of {}", micro_batches(m), q.group), "groups of " + divisors(m, least));
}

void complete_zeropp(ScheduleRequest& q) {
  const int m = q.micro_batches, p = q.ranks;
  if (q.warmup > 2) refuse(q, fmt::format("warm-up {}", q.warmup), "1 (less memory) or 2 (no bubble between units)");
  if (q.unit_size == 0) q.unit_size = m % (2 * p) == 0 ? 2 * p : m % p == 0 ? p : m;
  if (q.warmup == 0) q.warmup = q.unit_size >= 2 * p - 1 ? 2 : 1;
  const int least = q.warmup == 2 ? 2 * p - 1 : std::min(p, m);
  if (q.unit_size >= least && m % q.unit_size == 0) return;
  const std::string units = divisors(m, least);
  const std::string what = fmt::format("{} in units of {} with warm-up {}", micro_batches(m), q.unit_size, q.warmup);
  refuse(q, what, units.empty() ? fmt::format("{} micro-batches or more, or warm-up 1", least) : "units of " + units);
}

}  // namespace

void refuse_cap(std::string_view kind, int cap, int least) {
  throw ConfigError(fmt::format("schedule {} with a memory cap of {} chunks a rank gets stuck; smallest that works: {}",
                                kind, cap, least));
}

const ScheduleKind& properties_of(PipelineSchedule kind) { return kKinds[static_cast<size_t>(kind)]; }

Placement placement_of(const ScheduleRequest& request) {
  ScheduleRequest q = request;
  const ScheduleKind& kind = properties_of(q.kind);
  if (q.chunks == 0) q.chunks = kind.chunks;
  check_place(q, kind);
  return {.ranks = q.ranks, .chunks = q.chunks, .zigzag = kind.zigzag, .two_way = kind.two_way};
}

ScheduleRequest complete(const ScheduleRequest& request) {
  ScheduleRequest q = request;
  const ScheduleKind& kind = properties_of(q.kind);
  q.chunks = placement_of(q).chunks;
  check_amount(q);
  check_options(q, kind);
  if (kind.two_way && kind.order != dualpipe_order && q.micro_batches % q.ranks != 0)
    refuse(q, micro_batches(q.micro_batches), fmt::format("a multiple of {}: {}", q.ranks, multiples(q.ranks)));
  if (kind.order == dualpipe_order && (q.micro_batches % 2 != 0 || q.micro_batches < 2 * q.ranks))
    refuse(q, micro_batches(q.micro_batches), fmt::format("an even number: {}", multiples(2, q.ranks)));
  if (kind.order == dualpipev_order && q.micro_batches < 2 * q.ranks)
    refuse(q, micro_batches(q.micro_batches), fmt::format("{} or more", 2 * q.ranks));
  if (kind.order == interleaved_order) complete_interleaved(q);
  if (kind.order == interleaved_zb_order) complete_interleaved_zb(q);
  if (kind.order == zeropp_order) complete_zeropp(q);
  if (!kind.order && q.window == 0) q.window = 2 * q.ranks;
  return q;
}

const std::vector<PipelineSchedule>& schedule_kinds() {
  static const std::vector<PipelineSchedule> all = [] {
    std::vector<PipelineSchedule> kinds;
    for (const ScheduleKind& k : kKinds) kinds.push_back(k.kind);
    return kinds;
  }();
  return all;
}

bool splits_weight_gradients(PipelineSchedule kind) { return properties_of(kind).split; }

bool any_chunks(PipelineSchedule kind) { return properties_of(kind).any_chunks; }

PipelineSchedule schedule_kind_named(std::string_view name) {
  if (const auto kind = named<PipelineSchedule>(name)) return *kind;
  throw ConfigError(
      fmt::format("there is no schedule '{}'; use {}", name, fmt::join(names_of(PipelineSchedule()), ", ")));
}

}  // namespace fp
