#include "train/first_loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace fp {

std::optional<FirstLoss> compare_first_loss(int64_t step, double loss, std::optional<double> before, double last) {
  if (before && std::isfinite(*before)) {
    const double apart = std::abs(loss - *before) / std::max(std::abs(*before), 1e-12);
    return FirstLoss{
        fmt::format("step {} again: loss {:.7g}, before {:.7g} ({:.1e} apart)", step, loss, *before, apart),
        !(apart <= 0.02)};
  }
  if (!std::isfinite(last)) return {};
  return FirstLoss{
      fmt::format("the first loss after the checkpoint is {:.6g}, the last before it was {:.6g}", loss, last),
      !(loss <= last + 0.5 || loss <= 1.2 * last)};
}

}  // namespace fp
