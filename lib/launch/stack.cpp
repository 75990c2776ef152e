#include "launch/stack.h"

#include <cxxabi.h>
#include <execinfo.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>

#include "base/error.h"
#include "base/stopwatch.h"

namespace fp {
namespace {

constexpr int kSignal = SIGURG;  // ignored by default, so no other code depends on it
std::array<void*, 64> frames;    // written by the handler before `depth`
std::atomic<int> depth{0};
std::atomic<bool> probing{false};
struct sigaction former {};

void on_stack_signal(int) {
  const int saved_errno = errno;
  if (depth.load() == 0) depth.store(::backtrace(frames.data(), static_cast<int>(frames.size())));
  errno = saved_errno;
}

// "program(_ZN2fp5trainEv+0x1a) [0x55..]" with the function's name demangled.
std::string readable(const std::string& frame) {
  const size_t open = frame.find('('), plus = frame.find('+', open);
  if (open == std::string::npos || plus == std::string::npos) return frame;
  const std::string mangled = frame.substr(open + 1, plus - open - 1);
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? frame.substr(0, open + 1) + name.get() + frame.substr(plus) : frame;
}

}  // namespace

StackProbe::StackProbe() : thread_(::pthread_self()) {
  FP_CHECK(!probing.exchange(true), "two stack probes at a time");
  ::backtrace(frames.data(), 1);  // loads the unwinder now, which a handler must not do
  struct sigaction action {};
  action.sa_handler = on_stack_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  FP_CHECK(::sigaction(kSignal, &action, &former) == 0, "sigaction: errno {}", errno);
}

StackProbe::~StackProbe() {
  ::sigaction(kSignal, &former, nullptr);
  probing = false;
}

std::string StackProbe::text(const std::string& prefix, double within_s) const {
  depth = 0;
  ::pthread_kill(thread_, kSignal);
  const auto asked = std::chrono::steady_clock::now();
  while (depth.load() == 0 && seconds_since(asked) < within_s)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const int count = depth.load();
  if (count == 0) return prefix + "the main thread handles no signal: it is inside the kernel\n";
  const std::unique_ptr<char*, decltype(&std::free)> names(::backtrace_symbols(frames.data(), count), &std::free);
  std::string text;
  for (int i = 1; names && i < count; ++i) text += prefix + readable(names.get()[i]) + "\n";  // 0: the handler
  return text;
}

}  // namespace fp
