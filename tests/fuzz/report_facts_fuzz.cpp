#include "base/error.h"
#include "io/filesystem.h"
#include "report/report_html.h"
#include "report/run_facts.h"
#include "target.h"

// Arbitrary bytes as report.json of a run directory: an accepted report round-trips and can be plotted; any other is
// set aside.
FP_FUZZ_TARGET(report_facts) {
  fp_fuzz::silence_log();
  fp_fuzz::clear_scratch();
  const std::filesystem::path& folder = fp_fuzz::scratch();
  const auto file = fp_fuzz::write_scratch("report.json", fp_fuzz::text_of(data, size));
  fp_fuzz::accept_or_refuse([&] {
    const fp::RunFacts facts = fp::load_run_facts(folder);
    fp::report_page(facts, {}, {}, 0);
    fp::save_run_facts(folder, facts);
    const std::string written = fp::read_file(file);
    fp::save_run_facts(folder, fp::load_run_facts(folder));
    FP_CHECK(fp::read_file(file) == written, "not as it was written:\n{}", written);
  });
  fp_fuzz::write_scratch("report.json", fp_fuzz::text_of(data, size));
  std::string broken;
  fp::load_facts_or_set_aside(folder, broken);
  return 0;
}
