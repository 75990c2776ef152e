#include "base/progress.h"

#include <utility>

namespace fp {
namespace {
std::function<void()>& hook() {
  static std::function<void()> h;
  return h;
}
thread_local std::atomic<int64_t>* counter = nullptr;
}  // namespace

void set_progress_hook(std::function<void()> h) { hook() = std::move(h); }

void count_progress(std::atomic<int64_t>* c) { counter = c; }

void progress() {
  if (counter != nullptr)
    ++*counter;
  else if (hook())
    hook()();
}

}  // namespace fp
