#include "launch/lifeline.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <future>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/shown.h"
#include "launch/early_stop.h"
#include "launch/hub.h"
#include "launch/spoke.h"

namespace fp {

void leave_after(double seconds, int code) {
  try {
    std::thread([=] {
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
      ::syscall(SYS_exit_group, code);  // sanitizers hook _exit and may block in it
    }).detach();
  } catch (const std::system_error&) {
    ::_exit(code);
  }
}

void leave(int code, double flush_s) {
  if (stopping_early()) code = static_cast<int>(ExitCode::interrupted);
  leave_after(flush_s, code);
  run_within(flush_s / 2, [flush_s] { log::flush(flush_s); });  // the cause must be in the log
  std::fflush(nullptr);                                         // may wait for a thread that is stuck in a write
  ::_exit(code);
}

void log_error(const std::string& text, double within_s) {
  if (stopping_early()) return;
  if (run_within(within_s, [text] { log::error("{}", text); })) return;
  // If poll() reports a pipe as writable, PIPE_BUF bytes do not block.
  const std::string line =
      fmt::format("[rank {}] error: {}", log::rank(), printable(text)).substr(0, PIPE_BUF - 1) + "\n";
  pollfd out{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&out, 1, 0) == 1 && (out.revents & POLLOUT) != 0) [[maybe_unused]]
    const ssize_t n = ::write(STDERR_FILENO, line.data(), line.size());
}

bool run_within(double seconds, std::function<void()> work) {
  std::promise<void> finished;
  const std::future<void> done = finished.get_future();
  try {
    std::thread([work = std::move(work), finished = std::move(finished)]() mutable {
      try {
        work();
      } catch (...) {  // an exception here would end the process
      }
      finished.set_value();
    }).detach();
  } catch (const std::system_error&) {
    return false;
  }
  return done.wait_for(std::chrono::duration<double>(seconds)) == std::future_status::ready;
}

Member::Member(int rank, const CommRecord& record, LifelineOptions options)
    : rank_(rank),
      record_(&record),
      options_(std::move(options)),
      clock_(*options_.clock),
      last_update_(clock_.now()) {}

void Member::start_thread() {
  FP_CHECK(!thread_.joinable(), "a lifeline is joined once");
  leave_early_stop_to(mailbox_.fd());
  sigset_t all, former;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &former);  // signals go to the main thread
  last_update_ = clock_.now();
  thread_ = clock_.start([this] { run(); });
  ::pthread_sigmask(SIG_SETMASK, &former, nullptr);
}

void Member::fail(int code, const std::string& message, Blame blame) {
  if (!thread_.joinable()) {
    log::error("{}", message);
    leave_now(code);
  }
  mailbox_.post({"fail", {std::to_string(code), blame == Blame::self ? "self" : "peer", message}});
  for (;;) clock_.wait_readable({}, Time::max());
}

void Member::report() {
  if (thread_.joinable()) mailbox_.post({"report", {}});
}

void Member::stop(const char* verb) {
  if (thread_.joinable()) {
    mailbox_.post({verb, {}});
    clock_.join(thread_);
  }
  leave_early_stop_to(-1);
}

void Member::close() { stop("bye"); }

void Member::abandon() { stop("leave"); }

void Member::update_clock() {
  const Time now = clock_.now();
  const double passed_s = std::chrono::duration<double>(now - last_update_).count();
  awake_s_ += std::min(passed_s, options_.heartbeat_s);
  if (passed_s > 3 * options_.heartbeat_s) {
    paused_s_ = passed_s;
    last_pause_ = now;
  }
  last_update_ = now;
}

void Member::print_stack() const {
  const std::string text = stack_.text(fmt::format("[rank {}]   ", rank_), options_.end.stack_s);
  [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
}

void Member::leave_now(int code) const { leave(code, options_.end.flush_s); }

void Member::log_now(const std::string& text) const { log_error(text, options_.end.log_s); }

void Member::warn_now(const std::string& text) {
  if (!log_hangs_) log_hangs_ = !run_within(options_.end.log_s, [text] { log::warning("{}", text); });
}

std::optional<PeerMessage> Member::failure_of_device() {
  const std::string error = record_.load()->activity().error;
  if (error.empty() || std::exchange(device_failed_, true)) return {};
  return PeerMessage{"fail", {std::to_string(kInfrastructure), "peer", error}};
}

void Member::report_suspect(const std::string& node) const {
  if (!node.empty() && options_.suspect && !stopping_early())
    run_within(options_.end.log_s, [suspect = options_.suspect, node] { suspect(node); });
}

namespace {

std::unique_ptr<Member> make_member(int rank, int size, const CommRecord& record, LifelineOptions options) {
  FP_CHECK(rank >= 0 && rank < size && options.heartbeat_s > 0, "rank {} of {}, heartbeat {} s", rank, size,
           options.heartbeat_s);
  if (rank == 0) return std::make_unique<Hub>(size, record, std::move(options));
  return std::make_unique<Spoke>(rank, record, std::move(options));
}

}  // namespace

Lifeline::Lifeline(int rank, int size, const CommRecord& record, LifelineOptions options)
    : member_(make_member(rank, size, record, std::move(options))) {}

Lifeline::~Lifeline() { member_->abandon(); }

std::string Lifeline::address() const { return member_->address(); }
void Lifeline::join(const std::string& address) { member_->join(address); }
void Lifeline::fail(int code, const std::string& message, Blame blame) { member_->fail(code, message, blame); }
void Lifeline::watch(const CommRecord& record) { member_->watch(record); }
void Lifeline::report() { member_->report(); }
void Lifeline::close() { member_->close(); }

}  // namespace fp
