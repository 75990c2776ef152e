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
#include "hdf5_flag.h"
#include "inference/evaluation.h"
#include "inference/inference.h"
#include "inference/multiple_choice_eval.h"
#include "older_flag.h"

namespace fp {
namespace {

struct EvalArguments {
  std::string file, checkpoint, precision, choices, device = "auto";
  std::vector<std::string> sets;
  int64_t samples = 0, rows = 8;
  bool json = false;
  Hdf5Flag hdf5;
  OlderFlag older;
};

void run_multiple_choice(const EvalArguments& a) {
  const auto ops = open_device(device_named(a.device), 0);
  const auto counting = make_counting_ops(ops.get());
  LoadedModel loaded(a.checkpoint, a.older.value());
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

void print_result(const EvaluationResult& r, int64_t step, bool json) {
  if (json) {
    nlohmann::json j = json_of(r);
    j["step"] = step;
    for (const auto& [label, of_dataset] : r.datasets) j["datasets"][label] = json_of(of_dataset);
    fmt::print("{}\n", j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return;
  }
  fmt::print("step {}: {}\n", step, text_of(r));
  for (const auto& [label, of_dataset] : r.datasets) fmt::print("  {}: {}\n", printable(label), text_of(of_dataset));
}

void run_eval(const EvalArguments& a) {
  const RunSpec spec = load_run_spec(a.file, a.sets);
  constexpr std::array<std::string_view, 1> kNeeded = {"micro_batch"};
  require_planned(spec, "eval", kNeeded);
  validate_for_training(spec);
  const auto ops = open_device(spec.run.device, spec.run.threads);
  const auto counting = make_counting_ops(ops.get());
  const Groups groups = make_self_groups();
  const ValidationSampler sampler(spec.data, a.samples, {Verify::changed});
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
    return evaluate(loaded.executor(), sampler, spec.train.micro_batch, groups, {}, [&](int64_t done) {
      progress.update(static_cast<uint64_t>(done), static_cast<uint64_t>(sampler.size()), "samples", 1);
    });
  }();
  print_result(r, loaded.source().step(), a.json);
}

}  // namespace

void add_eval_command(cli::App& app, CommandResult&) {
  const auto a = std::make_shared<EvalArguments>();
  cli::App* command = app.add_subcommand(
      "eval", "Compute held-out loss, perplexity and bits per byte of a checkpoint, or its accuracy on questions");
  cli::Option* run_spec = command->add_option("RUN.yaml", a->file, "run spec (YAML) for the data and the batch size");
  cli::Option* choices =
      command
          ->add_option("--multiple-choice", a->choices,
                       "instead of held-out text: questions in llm.c's format (HellaSwag, MMLU), GPT-2 token ids")
          ->excludes(run_spec);
  command->add_option("--rows", a->rows, "with --multiple-choice: completions scored at a time")
      ->needs(choices)
      ->capture_default_str()
      ->check(cli::Range(1, 1 << 20));
  command->add_option("--device", a->device, "with --multiple-choice: device; else that of the run spec")
      ->needs(choices)
      ->capture_default_str()
      ->check(cli::IsMember(kDevices));
  command
      ->add_option("--checkpoint", a->checkpoint, "checkpoint, run directory (its newest one), or Hugging Face folder")
      ->required();
  command->add_option("--set", a->sets, "section.key=value, over the file; repeatable")
      ->needs(run_spec)
      ->take_all()
      ->allow_extra_args(false);
  command->add_option("--samples", a->samples, "held-out samples; 0: all")
      ->needs(run_spec)
      ->check(cli::NonNegativeNumber);
  command->add_option("--precision", a->precision, "default: as in training")->check(cli::IsMember({"bf16", "fp32"}));
  command->add_flag("--json", a->json, "one JSON object");
  a->hdf5.add_to(*command);
  a->older.add_to(*command);
  command->callback([a] {
    a->hdf5.apply();
    if (!a->choices.empty()) return run_multiple_choice(*a);
    if (a->file.empty()) throw ConfigError("eval: name a run spec, or questions with --multiple-choice");
    run_eval(*a);
  });
}

}  // namespace fp
