#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/shown.h"
#include "base/task_progress.h"
#include "commands.h"
#include "config/load.h"
#include "config/open_keys.h"
#include "data/sampling/sampler.h"
#include "device.h"
#include "eval_needle.h"
#include "inference/evaluation.h"
#include "inference/inference.h"
#include "inference/multiple_choice_eval.h"
#include "io/filesystem.h"
#include "io/writable_folder.h"
#include "report/run_plots.h"

namespace fp {
namespace {

// The questions of such files are token ids of GPT-2's tokenizer, which another model would take for nonsense.
void require_gpt2_ids(const LoadedModel& loaded, const std::string& file) {
  if (!loaded.has_tokenizer()) return;
  const std::vector<int32_t> known = {15496, 11, 995};  // of GPT-2
  if (loaded.tokenizer().encode("Hello, world", SpecialText::as_text) == known) return;
  throw ConfigError(fmt::format("--multiple-choice {}: holds token ids of GPT-2's tokenizer, but that of {} is another",
                                file, loaded.source().path().string()));
}

void run_multiple_choice(const EvalArguments& a) {
  const auto ops = open_device(device_named(a.device), 0);
  const auto counting = make_counting_ops(ops.get());
  LoadedModel loaded(a.checkpoint, a.older.value());
  require_gpt2_ids(loaded, a.choices);
  const std::vector<MultipleChoice> questions = read_multiple_choice(a.choices);
  InferenceOptions use;
  use.precision = named<DType>(a.precision);
  use.micro_batch = a.rows;
  use.seq_len = longest_row(questions, loaded.spec().model.vocab);
  loaded.load(use, *ops, *counting, make_self_groups());
  const MultipleChoiceResult r = [&] {
    TaskProgress progress("evaluating");
    return evaluate_choices(loaded.executor(), questions, a.rows, use.seq_len, [&](int64_t done) {
      progress.update(static_cast<uint64_t>(done), questions.size(), "questions", 1);
    });
  }();
  const auto share = [&](int64_t n) {
    return static_cast<double>(n) / static_cast<double>(std::max<int64_t>(r.examples, 1));
  };
  if (a.json)
    fmt::print("{}\n", nlohmann::json{{"examples", r.examples},
                                      {"acc", share(r.correct)},
                                      {"acc_norm", share(r.correct_normalized)},
                                      {"step", loaded.source().step()}}
                           .dump());
  else
    fmt::print("step {}: {} questions, acc {:.4f}, acc_norm {:.4f}\n", loaded.source().step(), r.examples,
               share(r.correct), share(r.correct_normalized));
}

nlohmann::json json_of(const HeldOutLoss& r) {
  return {{"val_loss", r.loss},
          {"val_perplexity", r.perplexity},
          {"val_bits_per_byte", r.bits_per_byte},
          {"tokens", r.tokens}};
}

std::string text_of(const HeldOutLoss& r) {
  return fmt::format("loss {:.5g}, perplexity {:.5g}, {:.5g} bits per byte over {} tokens", r.loss, r.perplexity,
                     r.bits_per_byte, r.tokens);
}

nlohmann::json json_of(const PositionLoss& p) {
  return {{"begin", p.begin},
          {"end", p.end},
          {"val_loss", p.loss},
          {"standard_error", p.standard_error},
          {"tokens", p.tokens}};
}

// `stride`: of samples that overlap, else 0.
void print_result(const EvaluationResult& r, int64_t step, int64_t stride, bool json) {
  if (json) {
    nlohmann::json j = json_of(r);
    j["step"] = step;
    if (stride > 0) j["stride"] = stride;
    for (const auto& [label, of_dataset] : r.datasets) j["datasets"][label] = json_of(of_dataset);
    for (const PositionLoss& p : r.positions) j["positions"].push_back(json_of(p));
    if (const auto& c = r.comparison)
      j["comparison"] = {{"first", json_of(c->first)},
                         {"second", json_of(c->second)},
                         {"difference", c->difference},
                         {"standard_error", c->standard_error},
                         {"passages", c->passages}};
    fmt::print("{}\n", j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return;
  }
  fmt::print("step {}: {}{}\n", step, text_of(r),
             stride > 0
                 ? fmt::format(
                       " over samples that begin every {} tokens and overlap, so most tokens are counted several times",
                       stride)
                 : "");
  for (const auto& [label, of_dataset] : r.datasets) fmt::print("  {}: {}\n", printable(label), text_of(of_dataset));
  for (const PositionLoss& p : r.positions)
    fmt::print("  positions {}: loss {:.5g} ± {:.2g} over {} tokens\n", p.label(), p.loss, p.standard_error, p.tokens);
  if (const auto& c = r.comparison)
    fmt::print(
        "  the same {} targets at positions {} and at positions {}: loss {:.5g} and {:.5g}, difference {:.3g} ± {:.2g} "
        "(standard error over {} passages of text)\n",
        c->first.tokens, c->first.label(), c->second.label(), c->first.loss, c->second.loss, c->difference,
        c->standard_error, c->passages);
}

void draw_positions(const EvaluationResult& r, int64_t step, const std::string& file) {
  StepMetrics m;
  m.step = step;
  for (const PositionLoss& p : r.positions) {
    m.val_loss_at[p.label()] = p.loss;
    m.val_loss_error_at[p.label()] = p.standard_error;
  }
  Plot plot = position_plot({m});
  plot.width = 860;
  plot.height = 320;
  output_file(file, "--svg", render_svg_file(plot, plot.title, "mean of each range of positions, ± 2 standard errors"));
}

// Returns the ranges of --compare; nothing if it was not given.
std::optional<ComparedRanges> compared_ranges(const EvalArguments& a, const DataSection& data) {
  if (a.compare.empty()) return {};
  if (data.mask_documents)
    throw ConfigError(
        "--compare: with data.mask_documents: true a token sees only its own document, whatever its position in the "
        "sample is; legal: false");
  return parse_compared_ranges("--compare", a.compare, data.seq_len);
}

// Returns the stride of the samples; 0: they do not overlap.
int64_t stride_of(const EvalArguments& a, const std::optional<ComparedRanges>& compared) {
  if (!compared) return a.stride;
  const int64_t stride = a.stride > 0 ? a.stride : std::min((*compared)[0].length(), (*compared)[1].length());
  check_compared_ranges(*compared, stride);
  return stride;
}

void run_eval(const EvalArguments& a) {
  const RunSpec spec = load_run_spec(a.file, a.sets);
  constexpr std::array<std::string_view, 1> kNeeded = {"micro_batch"};
  require_planned(spec, "eval", kNeeded);
  validate_for_training(spec);
  const bool by_position = a.by_position || spec.eval.by_position;
  if (!a.svg.empty() && !by_position)
    throw ConfigError("--svg draws the loss by position or, with --needle, recall: add --by-position or --needle");
  require_output_file(a.svg, "--svg");
  const auto ops = open_device(spec.run.device, spec.run.threads);
  const auto counting = make_counting_ops(ops.get());
  const Groups groups = make_self_groups();
  const std::optional<ComparedRanges> compared = compared_ranges(a, spec.data);
  const int64_t stride = stride_of(a, compared);
  if (stride > 0 && spec.data.sampling == Sampling::documents)
    throw ConfigError(
        fmt::format("{} needs samples that overlap, but with data.sampling: documents each is a document; "
                    "legal: packed",
                    compared ? "--compare" : "--stride"));
  const ValidationSampler sampler(spec.data, std::max<int64_t>(a.samples, 0), {Verify::changed}, stride);
  if (sampler.rows_per_sample() > 1)
    throw ConfigError(
        fmt::format("{}: its data are preferences, which have no loss per token; legal: text or "
                    "conversations (train.objective dpo writes val_loss, val_margin and val_accuracy)",
                    a.file));
  LoadedModel loaded(a.checkpoint, a.older.value());
  if (sampler.tokenizer().hash() != loaded.tokenizer().hash())
    throw DataError(fmt::format("{}: was trained with another tokenizer than the data of {} was prepared with",
                                loaded.source().path().string(), a.file));
  InferenceOptions use;
  use.precision = named<DType>(a.precision);
  use.micro_batch = spec.train.micro_batch;
  use.seq_len = spec.data.seq_len;
  loaded.load(use, *ops, *counting, groups);
  sampler.check_vocab(loaded.spec().model.vocab);
  const EvaluationResult r = [&] {
    TaskProgress progress("evaluating");
    EvaluationOptions options{.micro_batch = spec.train.micro_batch, .by_position = by_position, .compare = compared};
    options.on_progress = [&](int64_t done) {
      progress.update(static_cast<uint64_t>(done), static_cast<uint64_t>(sampler.size()), "samples", 1);
    };
    return evaluate(loaded.executor(), sampler, groups, options);
  }();
  if (!a.svg.empty()) draw_positions(r, loaded.source().step(), a.svg);
  print_result(r, loaded.source().step(), stride, a.json);
  if (!std::isfinite(r.loss))
    throw DataError(
        fmt::format("{}: the loss is {}: its weights are not those of a working model (`fptrain checkpoint "
                    "inspect` shows values that are not finite)",
                    loaded.source().path().string(), r.loss));
  if (compared && !r.comparison)
    throw DataError(
        fmt::format("--compare {}: no token of the held-out text is at positions of both ranges, because no "
                    "dataset has over {} held-out tokens",
                    a.compare, std::max((*compared)[0].begin, (*compared)[1].begin)));
}

struct PositionFlags {
  cli::Option *by_position, *stride, *compare;
};

PositionFlags add_position_options(cli::App& command, cli::Option* run_spec, cli::Option* needle, EvalArguments& a) {
  PositionFlags flags{};
  flags.by_position =
      command.add_flag("--by-position", a.by_position, "also the loss of each range of positions of the samples")
          ->needs(run_spec)
          ->excludes(needle);
  flags.stride = command
                     .add_option("--stride", a.stride,
                                 "with --by-position: number of tokens between the beginnings of two samples. Samples "
                                 "then overlap, so that a target is at several positions, and evaluation takes seq_len "
                                 "/ stride times as long. Default: seq_len, no overlap")
                     ->needs(flags.by_position)
                     ->check(cli::PositiveNumber);
  flags.compare =
      command
          .add_option("--compare", a.compare,
                      "with --by-position: two ranges of positions, such as 128-256,1024-4096. Of the targets that "
                      "overlapping samples have in both ranges: the mean loss in each, the difference, first minus "
                      "second, which is the gain of the longer context, and its standard error, taken over passages of "
                      "seq_len tokens of text. The stride is by default the length of the shorter range, so that all "
                      "targets are in both but for those of a text's beginning")
          ->needs(flags.by_position);
  return flags;
}

}  // namespace

void add_eval_command(cli::App& app, CommandResult&) {
  const auto a = std::make_shared<EvalArguments>();
  cli::App* command = app.add_subcommand(
      "eval",
      "Compute held-out loss, perplexity and bits per byte of a checkpoint, its accuracy on questions, or its recall");
  cli::Option* run_spec = command->add_option("RUN.yaml", a->file, "run spec (YAML) for the data and the batch size");
  cli::Option* needle = command->add_flag(
      "--needle", a->needle,
      "instead of held-out text: recall of key-value pairs that are hidden in it, by length and depth");
  add_needle_options(*command, needle, *a);
  const PositionFlags positions = add_position_options(*command, run_spec, needle, *a);
  cli::Option* choices =
      command
          ->add_option("--multiple-choice", a->choices,
                       "instead of held-out text: questions in llm.c's format (HellaSwag, MMLU), GPT-2 token ids")
          ->excludes(run_spec)
          ->excludes(needle)
          ->excludes(positions.by_position);
  command->add_option("--rows", a->rows, "with --multiple-choice: completions scored at a time")
      ->needs(choices)
      ->capture_default_str()
      ->check(cli::Range(1, 1 << 20));
  command->add_option("--device", a->device, "without a run spec: device; else that of the run spec")
      ->excludes(run_spec)
      ->capture_default_str()
      ->check(cli::IsMember(kDevices));
  command
      ->add_option("--checkpoint", a->checkpoint, "checkpoint, run directory (its newest one), or Hugging Face folder")
      ->required();
  command->add_option("--set", a->sets, "section.key=value, over the file; repeatable")
      ->needs(run_spec)
      ->take_all()
      ->allow_extra_args(false);
  command
      ->add_option("--samples", a->samples,
                   "held-out samples; 0 and by default: all. With --needle: samples of each length and depth, by "
                   "default 10")
      ->excludes(choices)
      ->excludes(positions.stride)
      ->excludes(positions.compare)
      ->check(cli::NonNegativeNumber);
  command->add_option("--precision", a->precision, "default: as in training")->check(cli::IsMember({"bf16", "fp32"}));
  command->add_flag("--json", a->json, "one JSON object");
  command->add_option("--svg", a->svg, "with --needle or --by-position: also draw a picture to this file")
      ->excludes(choices);
  a->hdf5.add_to(*command);
  a->older.add_to(*command);
  command->callback([a] {
    a->hdf5.apply();
    if (!a->choices.empty()) return run_multiple_choice(*a);
    if (a->needle) return run_needle(*a);
    if (a->file.empty()) throw ConfigError("eval: name a run spec, or questions with --multiple-choice");
    run_eval(*a);
  });
}

}  // namespace fp
