#include "ops/copies.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace fp {
namespace {

bool overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  const auto* const x = static_cast<const std::byte*>(a);
  const auto* const y = static_cast<const std::byte*>(b);
  return x < y + b_bytes && y < x + a_bytes;
}

}  // namespace

Copies::Ended Copies::ended_with(Ended ended) const {
  for (auto u = unfinished_.rbegin(); u != unfinished_.rend(); ++u)
    if (u->ticket.number <= ended[index_of(u->ticket.lane)]) {
      int64_t& before = ended[index_of(u->after.lane)];
      before = std::max(before, u->after.number);
    }
  return ended;
}

double Copies::check_order(const Unfinished& now) const {
  Ended before{};
  before[index_of(now.after.lane)] = now.after.number;
  const Ended named = ended_with(before);
  before[index_of(now.ticket.lane)] = std::max(before[index_of(now.ticket.lane)], now.ticket.number - 1);
  const Ended ordered = ended_with(before);
  double not_before = 0;
  for (const Unfinished& u : unfinished_) {
    const size_t lane = index_of(u.ticket.lane);
    if (u.ticket.number <= named[lane]) not_before = std::max(not_before, u.end);
    if (u.ticket.number <= ordered[lane]) continue;
    for (const Use& mine : now.uses)
      for (const Use& other : u.uses)
        FP_CHECK((!mine.written && !other.written) || !overlap(mine.data, mine.bytes, other.data, other.bytes),
                 "work {} uses memory of unfinished work {} without being ordered after it", name_of(now.ticket.lane),
                 name_of(u.ticket.lane));
  }
  return not_before;
}

CopyTicket Copies::start(const Tensor& dst, const Tensor& src, const CopyTicket& after) {
  FP_CHECK(dst && src && dst.dtype == src.dtype && dst.elements() == src.elements(), "copy of {} {} to {} {}",
           name_of(src.dtype), src.shape.str(), name_of(dst.dtype), dst.shape.str());
  FP_CHECK(dst.residence != src.residence, "asynchronous copy within {} memory", name_of(src.residence));
  const CopyLane lane = dst.residence == Residence::host ? CopyLane::to_host : CopyLane::to_device;
  CopyTotal& total = totals_[index_of(lane)];
  const size_t bytes = dst.bytes();
  Unfinished now{{lane, total.copies + 1}, after, {{dst.data, bytes, true}, {src.data, bytes, false}}};
  const double not_before = check_order(now);
  total.copies += 1;
  total.bytes += static_cast<int64_t>(bytes);
  begin(Copy{now.ticket, after, dst.data, src.data, bytes});
  if (observer_ != nullptr) now.end = observer_->copy_started(lane, static_cast<int64_t>(bytes), not_before);
  unfinished_.push_back(std::move(now));
  return unfinished_.back().ticket;
}

CopyTicket Copies::start_on_host(const OpWork& work, const std::vector<Tensor>& tensors, std::function<void()> run,
                                 const CopyTicket& after) {
  CopyTotal& total = totals_[index_of(CopyLane::on_host)];
  Unfinished now{{CopyLane::on_host, total.copies + 1}, after, {}};
  for (const Tensor& t : tensors) now.uses.push_back({t.data, t.bytes(), true});
  const double not_before = check_order(now);
  total.copies += 1;
  total.bytes += static_cast<int64_t>(work.bytes);
  begin(HostOp{now.ticket, after, std::move(run), static_cast<size_t>(work.bytes)});
  if (observer_ != nullptr) now.end = observer_->host_op_started(work, not_before);
  unfinished_.push_back(std::move(now));
  return unfinished_.back().ticket;
}

void Copies::wait(const CopyTicket& ticket) {
  Ended ended{};
  ended[index_of(ticket.lane)] = ticket.number;
  ended = ended_with(ended);
  double end = 0;
  const auto finished = std::erase_if(unfinished_, [&](const Unfinished& u) {
    const bool has_ended = u.ticket.number <= ended[index_of(u.ticket.lane)];
    if (has_ended) end = std::max(end, u.end);
    return has_ended;
  });
  if (finished == 0) return;
  order_ops_after(ticket);
  if (observer_ != nullptr) observer_->copy_waited(end);
}

void Copies::wait_for_all() {
  for (const CopyLane lane : {CopyLane::to_host, CopyLane::to_device, CopyLane::on_host})
    wait({lane, total(lane).copies});
}

bool Copies::in_use(const void* data, size_t bytes) const {
  return std::ranges::any_of(unfinished_, [&](const Unfinished& u) {
    return std::ranges::any_of(u.uses, [&](const Use& use) { return overlap(data, bytes, use.data, use.bytes); });
  });
}

bool Copies::fills(const void* data, size_t bytes) const {
  return std::ranges::any_of(unfinished_, [&](const Unfinished& u) {
    return std::ranges::any_of(
        u.uses, [&](const Use& use) { return use.written && overlap(data, bytes, use.data, use.bytes); });
  });
}

void SynchronousCopies::begin(const Copy& c) { std::memcpy(c.dst, c.src, c.bytes); }

}  // namespace fp
