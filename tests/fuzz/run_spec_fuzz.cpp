#include "base/error.h"
#include "config/load.h"
#include "target.h"

// An accepted run spec can be dumped, and parsing the dump gives an equal one.
FP_FUZZ_TARGET(run_spec) {
  fp_fuzz::accept_or_refuse([&] {
    const fp::RunSpec spec = fp::parse_run_spec(fp_fuzz::text_of(data, size), "input");
    const std::string text = fp::dump(spec);
    FP_CHECK(fp::parse_run_spec(text, "dump") == spec, "the dump says something else:\n{}", text);
  });
  return 0;
}
