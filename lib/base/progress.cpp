#include "base/progress.h"

#include <utility>

namespace fp {
namespace {
std::function<void()>& hook() {
  static std::function<void()> h;
  return h;
}
}  // namespace

void set_progress_hook(std::function<void()> h) { hook() = std::move(h); }

void progress() {
  if (hook()) hook()();
}

}  // namespace fp
