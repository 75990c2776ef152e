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

CopyTicket Copies::start(const Tensor& dst, const Tensor& src, const CopyTicket& after) {
  FP_CHECK(dst && src && dst.dtype == src.dtype && dst.elements() == src.elements(), "copy of {} {} to {} {}",
           name_of(src.dtype), src.shape.str(), name_of(dst.dtype), dst.shape.str());
  FP_CHECK(dst.residence != src.residence, "asynchronous copy within {} memory", name_of(src.residence));
  const CopyLane lane = dst.residence == Residence::host ? CopyLane::to_host : CopyLane::to_device;
  CopyTotal& total = totals_[index_of(lane)];
  const Copy c{{lane, total.copies + 1}, after, dst.data, src.data, dst.bytes()};
  double not_before = 0;
  for (const Unfinished& u : unfinished_) {
    const Copy& o = u.copy;
    const bool ordered = o.ticket.lane == lane || after.covers(o.ticket);
    FP_CHECK(ordered || (!overlap(c.dst, c.bytes, o.dst, o.bytes) && !overlap(c.dst, c.bytes, o.src, o.bytes) &&
                         !overlap(c.src, c.bytes, o.dst, o.bytes)),
             "a copy {} uses memory of an unfinished copy {} without being ordered after it", name_of(lane),
             name_of(o.ticket.lane));
    if (after.covers(o.ticket)) not_before = std::max(not_before, u.end);
  }
  total.copies += 1;
  total.bytes += static_cast<int64_t>(c.bytes);
  begin(c);
  unfinished_.push_back(
      {c, observer_ == nullptr ? 0 : observer_->copy_started(lane, static_cast<int64_t>(c.bytes), not_before)});
  return c.ticket;
}

void Copies::wait(const CopyTicket& ticket) {
  double end = 0;
  // What a copy came after has ended too.
  std::array<int64_t, kCopyLanes> ended{};
  ended[index_of(ticket.lane)] = ticket.number;
  const auto has_ended = [&](const Unfinished& u) {
    return u.copy.ticket.number <= ended[index_of(u.copy.ticket.lane)];
  };
  for (auto u = unfinished_.rbegin(); u != unfinished_.rend(); ++u)
    if (has_ended(*u)) {
      int64_t& before = ended[index_of(u->copy.after.lane)];
      before = std::max(before, u->copy.after.number);
      end = std::max(end, u->end);
    }
  const auto finished = std::erase_if(unfinished_, has_ended);
  if (finished == 0) return;
  order_ops_after(ticket);
  if (observer_ != nullptr) observer_->copy_waited(end);
}

void Copies::wait_for_all() {
  for (const CopyLane lane : {CopyLane::to_host, CopyLane::to_device}) wait({lane, total(lane).copies});
}

bool Copies::in_use(const void* data, size_t bytes) const {
  return fills(data, bytes) || std::ranges::any_of(unfinished_, [&](const Unfinished& u) {
           return overlap(data, bytes, u.copy.src, u.copy.bytes);
         });
}

bool Copies::fills(const void* data, size_t bytes) const {
  return std::ranges::any_of(unfinished_,
                             [&](const Unfinished& u) { return overlap(data, bytes, u.copy.dst, u.copy.bytes); });
}

void SynchronousCopies::begin(const Copy& c) { std::memcpy(c.dst, c.src, c.bytes); }

}  // namespace fp
