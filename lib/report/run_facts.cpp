#include "report/run_facts.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/filesystem.h"
#include "io/json_numbers.h"
#include "io/retry.h"

namespace fp {
namespace {

using nlohmann::json;

// Lists each key and member once, for reading and writing.
template <class Facts, class Visit>
void visit_facts(Facts& f, Visit&& visit) {
  visit("name", f.name);
  visit("status", f.status);
  visit("model", f.model);
  visit("data", f.data);
  visit("compute", f.compute);
  visit("objective", f.objective);
  visit("initial_weights", f.initial_weights);
  visit("length", f.length);
  visit("version", f.version);
  visit("parameters", f.parameters);
  visit("total_steps", f.total_steps);
  visit("predicted_peak_bytes", f.predicted_peak_bytes);
  visit("predicted_tokens_per_s", f.predicted_tokens_per_s);
  visit("started", f.started);
  visit("sample_prompt", f.sample_prompt);
  visit("sample_text", f.sample_text);
  visit("sample_step", f.sample_step);
}

}  // namespace

RunFacts load_run_facts(const std::filesystem::path& run_directory) {
  RunFacts facts;
  const std::filesystem::path file = run_directory / "report.json";
  facts.name = std::filesystem::weakly_canonical(run_directory).filename().string();
  if (!std::filesystem::exists(file)) return facts;
  const json in = read_json(file);
  try {
    visit_facts(facts, [&](const char* key, auto& value) {
      if (in.contains(key)) read_from(in.at(key), key, value);
    });
    for (const json& e : in.value("events", json::array()))
      facts.events.push_back(
          {integer_from<int64_t>(e.at("step"), "step"), e.at("time").get<double>(), e.at("text").get<std::string>()});
    facts.machine = machine_from_json(in.value("machine", json::object()));
  } catch (const JsonError& e) {
    throw DataError(fmt::format("{}: not the facts of a report: {}", file.string(), e.what()));
  } catch (const json::exception& e) {
    throw DataError(fmt::format("{}: not the facts of a report: {}", file.string(), e.what()));
  }
  return facts;
}

RunFacts load_facts_or_set_aside(const std::filesystem::path& run_directory, std::string& broken) {
  broken.clear();
  try {
    return load_run_facts(run_directory);
  } catch (const AccessError& e) {  // the file may be intact
    broken = fmt::format("{}; the report loses the facts of earlier starts", e.what());
    return {};
  } catch (const DataError& e) {
    const std::filesystem::path aside = set_aside_broken(run_directory / "report.json");
    broken = fmt::format("{}; the file is kept as {}, and the report loses the facts of earlier starts", e.what(),
                         aside.filename().string());
    return {};
  }
}

void save_run_facts(const std::filesystem::path& run_directory, const RunFacts& facts) {
  json out = json::object();
  visit_facts(facts, [&](const char* key, const auto& value) { out[key] = value; });
  out["events"] = json::array();
  for (const RunEvent& e : facts.events)
    out["events"].push_back({{"step", e.step}, {"time", e.time}, {"text", e.text}});
  out["machine"] = to_json(facts.machine);
  // Sampled text may end inside a UTF-8 character.
  write_file_atomically(run_directory / "report.json", out.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
}

}  // namespace fp
