#include <nlohmann/json.hpp>

#include "base/error.h"
#include "inference/probe.h"
#include "target.h"
#include "train/progression.h"
#include "train/resume.h"

// JSON that training reads when it resumes: `extra` of a checkpoint's manifest, and the batch of a probe.
FP_FUZZ_TARGET(resume_state) {
  const std::string_view text = fp_fuzz::text_of(data, size);
  fp::TrainState state;
  state.extra = nlohmann::json::parse(text, nullptr, false);
  if (state.extra.is_object() && !fp_fuzz::is_nested_deeply(text)) {
    fp_fuzz::accept_or_refuse([&] { fp::Progression::from(fp::Progression::from(state).state()); });
    const nlohmann::json now = {{"run.seed", 1}, {"tokenizer", "0"}};
    fp::data_differences(state.extra.value("data", nlohmann::json::object()), now);
  }
  fp_fuzz::accept_or_refuse([&] {
    fp::ProbeOptions o;
    fp::read_probe_batch(fp_fuzz::write_scratch("batch.json", text), o);
    for (const auto& row : o.tokens) FP_CHECK(row.size() == o.tokens.front().size(), "ragged rows");
  });
  return 0;
}
