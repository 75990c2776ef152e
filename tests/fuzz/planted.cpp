// A target for the tests of the driver: it executes the requests that an input contains.
#include <signal.h>

#include <stdexcept>
#include <vector>

#include "target.h"

FP_FUZZ_TARGET(planted) {
  const std::string_view text = fp_fuzz::text_of(data, size);
  const auto asked = [&](std::string_view request) { return text.find(request) != std::string_view::npos; };
  fp_fuzz::accept_or_refuse([&] {
    if (asked("refuse")) throw fp::ConfigError("as any parser may");
    if (asked("throw")) throw std::runtime_error("as no parser may");
    if (asked("crash") || (asked("numbers") && asked("9223372036854775808"))) ::raise(SIGKILL);
    if (asked("hang"))
      for (volatile bool on = true; on;) continue;
    if (asked("take")) {
      const std::vector<char> memory(size_t{320} << 20, 'x');
      if (memory[text.size()] != 'x') throw std::logic_error("another x");
    }
  });
  return 0;
}
