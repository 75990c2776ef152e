#include "eval_needle.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/task_progress.h"
#include "config/load.h"
#include "data/sampling/sampler.h"
#include "device.h"
#include "inference/inference.h"
#include "io/filesystem.h"
#include "io/writable_folder.h"
#include "report/heat_map.h"

namespace fp {
namespace {

constexpr int64_t kShortestDefault = 128, kMostDefault = 32768;

// Returns the text to hide pairs in: a file, or the first dataset with held-out text.
Filler filler_of(const EvalArguments& a, const std::optional<RunSpec>& spec, const LoadedModel& loaded) {
  const Tokenizer& tokenizer = loaded.tokenizer();
  if (!spec) return {tokenizer.encode(read_file(a.filler), SpecialText::as_text), tokenizer.eot()};
  const auto sampler = std::make_shared<const ValidationSampler>(spec->data, 0, OpenOptions{Verify::changed});
  if (sampler->rows_per_sample() > 1)
    throw ConfigError(
        fmt::format("{}: its data are preferences, no text to hide pairs in; legal: text or "
                    "conversations, or --filler FILE",
                    a.file));
  if (sampler->tokenizer().hash() != tokenizer.hash())
    throw DataError(fmt::format("{}: was trained with another tokenizer than the data of {} was prepared with",
                                loaded.source().path().string(), a.file));
  sampler->check_vocab(loaded.spec().model.vocab);
  return Filler(std::shared_ptr<const Dataset>(sampler, sampler->datasets().front().get()));
}

// Learned positions end; others may be longer than in training, and what that costs is what is measured.
void require_positions(const ModelSection& model, const std::vector<int64_t>& lengths) {
  for (const int64_t length : lengths)
    if (model.traits().learned_positions && length > model.max_position)
      throw ConfigError(fmt::format("--lengths {}: this model's learned positions end at {}: legal: up to {}", length,
                                    model.max_position, model.max_position));
}

std::vector<int64_t> default_lengths(int64_t max_position) {
  std::vector<int64_t> lengths;
  for (int64_t n = kShortestDefault; n < std::min(max_position, kMostDefault); n *= 2) lengths.push_back(n);
  lengths.push_back(std::min(max_position, kMostDefault));
  return lengths;
}

NeedleOptions options_of(const EvalArguments& a, const LoadedModel& loaded) {
  NeedleOptions o = a.needle_options;
  if (a.samples != -1) o.samples = a.samples;
  if (o.lengths.empty()) o.lengths = default_lengths(loaded.spec().model.max_position);
  if (o.depths.empty()) o.depths = {0, 25, 50, 75, 100};
  return o;
}

// Returns the recall of a length over all depths.
NeedleRecall of_length(const std::vector<NeedleRecall>& all, int64_t length) {
  NeedleRecall sum{length};
  for (const NeedleRecall& r : all)
    if (r.length == length) {
      sum.samples += r.samples;
      sum.right += r.right;
    }
  return sum;
}

void print_json(const std::vector<NeedleRecall>& all, const NeedleOptions& o, int64_t step) {
  nlohmann::json cells = nlohmann::json::array();
  NeedleRecall sum;
  for (const NeedleRecall& r : all) {
    cells.push_back({{"length", r.length}, {"depth", r.depth}, {"samples", r.samples}, {"recall", r.recall()}});
    sum.samples += r.samples;
    sum.right += r.right;
  }
  fmt::print("{}\n",
             nlohmann::json{{"step", step}, {"seed", o.seed}, {"recall", sum.recall()}, {"needles", cells}}.dump());
}

void print_table(const std::vector<NeedleRecall>& all, const NeedleOptions& o, int64_t step) {
  fmt::print("step {}: recall of {} samples of each length and depth\n{:>8}", step, o.samples, "length");
  for (const double depth : o.depths) fmt::print("{:>8}", fmt::format("{}%", depth));
  fmt::print("{:>8}\n", "all");
  for (const int64_t length : o.lengths) {
    fmt::print("{:>8}", length);
    for (const NeedleRecall& r : all)
      if (r.length == length) fmt::print("{:>8}", fmt::format("{:.1f}%", 100 * r.recall()));
    fmt::print("{:>8}\n", fmt::format("{:.1f}%", 100 * of_length(all, length).recall()));
  }
}

std::string picture(const std::vector<NeedleRecall>& all, const NeedleOptions& o, int64_t step) {
  HeatMap map;
  map.title = fmt::format("Recall after step {}", step);
  map.subtitle = fmt::format("{} samples of each length and depth, {} pairs in each", o.samples, o.depths.size());
  map.row_name = "depth";
  map.column_name = "length in tokens";
  for (const int64_t length : o.lengths) map.columns.push_back(std::to_string(length));
  for (size_t d = 0; d < o.depths.size(); ++d) {
    map.rows.push_back(fmt::format("{}%", o.depths[d]));
    std::vector<double>& row = map.shares.emplace_back();
    for (size_t l = 0; l < o.lengths.size(); ++l) row.push_back(all[l * o.depths.size() + d].recall());
  }
  return render_heat_map(map);
}

}  // namespace

void add_needle_options(cli::App& command, cli::Option* needle, EvalArguments& a) {
  NeedleOptions& o = a.needle_options;
  command.add_option("--filler", a.filler, "with --needle: text file to hide the pairs in; default: held-out text")
      ->needs(needle);
  command
      .add_option("--lengths", o.lengths,
                  "with --needle: tokens of a sample, such as 256,1024; default: powers of two up to "
                  "model.max_position, at most 32768")
      ->needs(needle)
      ->delimiter(',');
  command
      .add_option("--depths", o.depths,
                  "with --needle: places of the pairs in percent of the text, such as 0,50,100; default: "
                  "0,25,50,75,100")
      ->needs(needle)
      ->delimiter(',');
  command.add_option("--seed", o.seed, "with --needle: seed of the samples")->needs(needle)->capture_default_str();
}

void run_needle(const EvalArguments& a) {
  if (a.file.empty() && a.filler.empty())
    throw ConfigError("eval --needle: name a run spec, whose held-out text pairs are hidden in, or a --filler FILE");
  if (!a.file.empty() && !a.filler.empty())
    throw ConfigError(
        fmt::format("eval --needle: pairs are hidden either in the held-out text of {} or in --filler {}; "
                    "name one of them",
                    a.file, a.filler));
  require_output_file(a.svg, "--svg");
  std::optional<RunSpec> spec;
  if (!a.file.empty()) spec = load_run_spec(a.file, a.sets);
  LoadedModel loaded(a.checkpoint, a.older.value());
  const NeedleOptions o = options_of(a, loaded);
  require_positions(loaded.spec().model, o.lengths);
  const KeyValueTexts texts(loaded.tokenizer(), filler_of(a, spec, loaded));
  check_needle_options(o, texts);
  InferenceOptions use;
  use.precision = named<DType>(a.precision);
  use.context = *std::max_element(o.lengths.begin(), o.lengths.end());
  const auto ops = spec ? open_device(spec->run.device, spec->run.threads) : open_device(device_named(a.device), 0);
  const auto counting = make_counting_ops(ops.get());
  loaded.load(use, *ops, *counting, make_self_groups());
  const std::vector<NeedleRecall> all = [&] {
    TaskProgress progress("measuring recall");
    const auto total = o.lengths.size() * o.depths.size() * static_cast<uint64_t>(o.samples);
    return measure_recall(loaded.model(), loaded.tokenizer(), texts, o,
                          [&](int64_t done) { progress.update(static_cast<uint64_t>(done), total, "samples", 1); });
  }();
  const int64_t step = loaded.source().step();
  if (!a.svg.empty()) output_file(a.svg, "--svg", picture(all, o, step));
  if (a.json)
    print_json(all, o, step);
  else
    print_table(all, o, step);
}

}  // namespace fp
