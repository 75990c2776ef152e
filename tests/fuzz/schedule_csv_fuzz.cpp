// Arbitrary bytes as a schedule: refused, or equal after a round trip through CSV. A schedule that passes verification
// can be lowered, and the result passes verification too.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "pipeline/memory.h"
#include "pipeline/text.h"
#include "pipeline/verify.h"
#include "target.h"

namespace {

void check_lowered(const fp::Schedule& s, const fp::LoweringOptions& options) {
  const std::vector<std::string> findings = fp::verify_lowered(s, options);
  FP_CHECK(findings.empty(), "{}", findings.front());
  fp::peak_bytes(s, options,
                 std::vector<fp::StageBytes>(static_cast<size_t>(s.placement.stages()), {1, 2, {3, 4, 5, 6}, 7}));
}

}  // namespace

FP_FUZZ_TARGET(schedule_csv) {
  try {
    const fp::Schedule s = fp::schedule_from_csv(std::string(reinterpret_cast<const char*>(data), size), "input");
    const fp::Schedule again = fp::schedule_from_csv(fp::to_csv(s), "input");
    FP_CHECK(again.ranks == s.ranks && again.placement == s.placement && again.micro_batches == s.micro_batches,
             "other lists from the same CSV");
    for (const bool gather : {false, true}) {
      fp::LoweringOptions options;
      options.gather = gather;
      if (fp::verify_lowered(s, options).empty()) check_lowered(s, options);
      // Ranks that share stages without being mirror images may gather in different orders.
      const bool lowers = fp::verify(s).empty() && !(s.placement.two_way);
      if (lowers) check_lowered(fp::lower(s, options), options);
    }
  } catch (const fp::UserError&) {
  }
  return 0;
}
