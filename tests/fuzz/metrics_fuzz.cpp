#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "report/history.h"
#include "report/metrics.h"
#include "report/report_html.h"
#include "target.h"

namespace {

void check_line(std::string_view line) {
  const auto metrics = fp::parse_json_line(line);
  if (!metrics) return;
  const std::string written = fp::to_json_line(*metrics);
  const auto again = fp::parse_json_line(written);
  FP_CHECK(again && fp::to_json_line(*again) == written, "not as it was written: {}", written);
}

}  // namespace

// Arbitrary bytes as metrics.jsonl: accepted metrics can be plotted, and a run can resume with any file.
FP_FUZZ_TARGET(metrics) {
  fp_fuzz::silence_log();
  fp_fuzz::clear_scratch();
  const std::string_view text = fp_fuzz::text_of(data, size);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    check_line(text.substr(begin, end - begin));
    begin = end + 1;
  }
  const auto file = fp_fuzz::write_scratch("metrics.jsonl", text);
  fp_fuzz::accept_or_refuse([&] {
    const fp::History history = fp::read_history(file);
    fp::report_page({}, history, {}, 0);
    fp::loss_picture({}, history);
  });
  fp::MetricsWriter writer(file, 3);
  FP_CHECK(!writer.last() || writer.last()->step <= 3, "resumes after step {}", writer.last()->step);
  fp::StepMetrics next;
  next.step = 4;
  writer.append(next);
  fp::for_each_step(file, [](const fp::StepMetrics&) {});
  return 0;
}
