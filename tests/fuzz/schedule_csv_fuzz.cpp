// Any bytes as a schedule: a refusal, or lists that come back from CSV as they were. What the verifier lets through can
// be lowered, and that is right too.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "schedule/memory.h"
#include "schedule/text.h"
#include "schedule/verify.h"

namespace {

void check_right(const fp::Schedule& s, const fp::LoweringOptions& options) {
  const std::vector<std::string> findings = fp::verify_lowered(s, options);
  FP_CHECK(findings.empty(), "{}", findings.front());
  fp::peak_bytes(s, options,
                 std::vector<fp::StageBytes>(static_cast<size_t>(s.placement.stages()), {1, 2, {3, 4, 5, 6}, 7}));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const fp::Schedule s = fp::schedule_from_csv(std::string(reinterpret_cast<const char*>(data), size), "input");
    const fp::Schedule again = fp::schedule_from_csv(fp::to_csv(s), "input");
    FP_CHECK(again.ranks == s.ranks && again.placement == s.placement && again.micro_batches == s.micro_batches,
             "other lists from the same CSV");
    for (const bool gather : {false, true}) {
      fp::LoweringOptions options;
      options.gather = gather;
      if (fp::verify_lowered(s, options).empty()) check_right(s, options);
      // Ranks that share stages but are no mirror images may gather in different orders.
      const bool lowers = fp::verify(s).empty() && !(s.placement.two_way);
      if (lowers) check_right(fp::lower(s, options), options);
    }
  } catch (const fp::UserError&) {
  }
  return 0;
}
