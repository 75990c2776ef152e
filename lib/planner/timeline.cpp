#include "planner/timeline.h"

#include <algorithm>

namespace fp {

void Timeline::called(const OpWork& work) {
  const double seconds = costs_->op_seconds(work);
  if (work.m == 0) {
    now_ += seconds;
    return;
  }
  const double beside = std::max(tensors_until_ - now_, 0.0);  // seconds that communication is under way from now on
  const double slower = 1 + costs_->cluster().slower_beside_communication;
  now_ += std::min(seconds * slower, seconds + beside * (1 - 1 / slower));
}

double Timeline::started(CommKind kind, const std::string& group, std::span<const int> ranks, int64_t sent,
                         const UnevenPieces& pieces) {
  const double seconds = costs_->comm_seconds(kind, ranks, sent, pieces);
  if (!costs_->cluster().overlaps) {
    now_ += seconds;
    exposed_ += seconds;
    return now_;
  }
  double& busy = busy_until_[kind == CommKind::host ? group + " host" : group];
  busy = std::max(busy, now_) + seconds;
  if (kind != CommKind::host) tensors_until_ = std::max(tensors_until_, busy);
  return busy;
}

void Timeline::waited(double end) {
  if (end <= now_) return;
  exposed_ += end - now_;
  now_ = end;
}

double Timeline::copy_started(CopyLane lane, int64_t bytes, double after) {
  const double seconds = costs_->copy_seconds(bytes);
  if (costs_->copies_take_cores()) {
    now_ += seconds;
    exposed_copies_ += seconds;
    return std::max(now_, after);
  }
  double& busy = lane_busy_until_[index_of(lane)];
  return busy = std::max({busy, now_, after}) + seconds;
}

double Timeline::host_op_started(const OpWork& work, double after) {
  if (costs_->copies_take_cores()) {
    called(work);
    return std::max(now_, after);
  }
  double& busy = lane_busy_until_[index_of(CopyLane::on_host)];
  return busy = std::max(busy, after) + costs_->host_op_seconds(work);
}

void Timeline::copy_waited(double end) {
  if (end <= now_) return;
  exposed_copies_ += end - now_;
  now_ = end;
}

}  // namespace fp
