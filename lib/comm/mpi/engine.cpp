#include "comm/mpi/engine.h"

#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <thread>

namespace fp {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Sleeps for about an eighth of the time waited so far, as messages advance only in between.
void sleep_after(Clock::duration waited) {
  const Clock::duration longest = waited < 100ms ? 200us : 1ms;
  std::this_thread::sleep_for(std::clamp<Clock::duration>(waited / 8, 20us, longest));
}

}  // namespace

void check_mpi(int result, const std::string& what) {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(result, text, &length);
  throw CommError(what + ": " + std::string(text, static_cast<size_t>(length)));
}

// By default the system lets threads sleep up to 50 us longer than they ask.
MpiEngine::MpiEngine(int64_t largest_message) : largest_message_(largest_message) {
  constexpr unsigned long kNanoseconds = 1000;
  ::prctl(PR_SET_TIMERSLACK, kNanoseconds);
}

void MpiEngine::progress() {
  // By index, because advance() may destroy an operation that fails; it adds none.
  for (size_t i = 0; i < under_way_.size(); ++i) under_way_[i]->advance();
}

void MpiEngine::wait_until(const std::function<bool()>& done) {
  constexpr Clock::duration kSpin = 50us, kYield = 10ms;  // time waited from which on it yields, and sleeps
  const auto start = Clock::now();
  for (;;) {
    progress();
    if (done()) return;
    const auto now = Clock::now();
    if (now - start < kSpin) continue;
    if (now - start < kYield && now > core_is_shared_until_)
      yield_core();
    else
      sleep_after(now - start);
  }
}

// Yielding is fastest where the core is idle. Another program that gets the core keeps it for a whole time slice, often
// 3 ms, but a thread that wakes gets it back at once: after a slow yield, waits sleep for a while instead.
void MpiEngine::yield_core() {
  constexpr Clock::duration kSlow = 500us, kLongest = 100ms;
  constexpr int kTimesAsLong = 16;
  const auto before = Clock::now();
  sched_yield();
  const auto after = Clock::now();
  if (after - before > kSlow) core_is_shared_until_ = after + std::min(kTimesAsLong * (after - before), kLongest);
}

MpiOperation::MpiOperation(MpiEngine& engine, MPI_Comm comm, std::string what, int tag,
                           std::vector<ExchangePhase> phases, std::vector<BufferPool::Handle> buffers)
    : engine_(engine),
      comm_(comm),
      what_(std::move(what)),
      tag_(tag),
      phases_(std::move(phases)),
      held_(std::move(buffers)) {
  advance();
  engine_.under_way_.push_back(this);
}

MpiOperation::~MpiOperation() {
  std::erase(engine_.under_way_, this);
  // An abandoned operation means a failed run: data still to arrive must not be written to freed memory.
  for (size_t i = 0; i < requests_.size(); ++i)
    if (requests_[i] != MPI_REQUEST_NULL && awaited_[i] >= 0) MPI_Cancel(&requests_[i]);
}

void MpiOperation::wait() {
  engine_.wait_until([this] { return done(); });
}

void MpiOperation::advance() {
  while (!done() && test()) {
    if (next_phase_ == phases_.size()) return;
    const ExchangePhase& next = phases_[next_phase_++];
    if (next.prepare) next.prepare();
    post(next);
  }
}

void MpiOperation::post(const ExchangePhase& phase) {
  const int tag = tag_ + static_cast<int>(next_phase_) - 1;
  for (const HostMessage& m : phase.messages)
    for (int64_t at = 0; at < m.bytes; at += engine_.largest_message()) {
      const int count = static_cast<int>(std::min(m.bytes - at, engine_.largest_message()));
      MPI_Request& request = requests_.emplace_back(MPI_REQUEST_NULL);
      awaited_.push_back(m.send ? -1 : count);
      check_mpi(m.send ? MPI_Isend(m.data + at, count, MPI_BYTE, m.peer, tag, comm_, &request)
                       : MPI_Irecv(m.data + at, count, MPI_BYTE, m.peer, tag, comm_, &request),
                what_);
    }
}

// Returns whether all posted messages are complete.
bool MpiOperation::test() {
  if (requests_.empty()) return true;
  int complete = 0;
  std::vector<MPI_Status> statuses(requests_.size());
  const int result = MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &complete, statuses.data());
  if (result == MPI_ERR_IN_STATUS)
    for (const MPI_Status& s : statuses)
      if (s.MPI_ERROR != MPI_ERR_PENDING) check_mpi(s.MPI_ERROR, what_);
  check_mpi(result, what_);
  if (complete == 0) return false;
  for (size_t i = 0; i < statuses.size(); ++i) {
    int came = 0;
    MPI_Get_count(&statuses[i], MPI_BYTE, &came);
    FP_CHECK(awaited_[i] < 0 || came == awaited_[i], "{}: received {} bytes from rank {} of the group, expected {}",
             what_, came, statuses[i].MPI_SOURCE, awaited_[i]);
  }
  requests_.clear();
  awaited_.clear();
  return true;
}

}  // namespace fp
