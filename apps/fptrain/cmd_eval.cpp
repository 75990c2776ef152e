#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "config/load.h"
#include "data/sampler.h"
#include "device.h"
#include "train/evaluation.h"
#include "train/inference.h"

namespace fp {
namespace {

struct Arguments {
  std::string file, checkpoint, precision;
  std::vector<std::string> sets;
  int64_t samples = 0;
  bool json = false;
};

void run(const Arguments& a) {
  const RunSpec spec = load_run_spec(a.file, a.sets);
  validate_for_training(spec);
  const auto ops = open_device(spec.run.device, spec.run.threads);
  const auto counting = make_counting_ops();
  const Groups groups = make_self_groups();
  const ValidationSampler sampler(spec.data, a.samples);
  LoadedModel loaded(a.checkpoint);
  if (sampler.tokenizer().hash() != loaded.tokenizer().hash())
    throw DataError(fmt::format("{}: was trained with another tokenizer than the data of {} was prepared with",
                                loaded.source().path().string(), a.file));
  InferenceOptions use;
  use.precision = a.precision;
  use.micro_batch = spec.train.micro_batch;
  use.seq_len = spec.data.seq_len;
  loaded.load(use, *ops, *counting, groups);
  sampler.check_vocab(loaded.spec().model.vocab);
  const EvaluationResult r = evaluate(loaded.executor(), sampler, spec.train.micro_batch, groups);
  if (a.json)
    fmt::print("{}\n", nlohmann::json{{"val_loss", r.loss},
                                      {"val_perplexity", r.perplexity},
                                      {"val_bits_per_byte", r.bits_per_byte},
                                      {"tokens", r.tokens},
                                      {"step", loaded.source().step()}}
                           .dump());
  else
    fmt::print("step {}: loss {:.9g}, perplexity {:.6g}, {:.6g} bits per byte over {} tokens\n", loaded.source().step(),
               r.loss, r.perplexity, r.bits_per_byte, r.tokens);
}

}  // namespace

void add_eval_command(CLI::App& app, CommandResult&) {
  const auto a = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("eval", "Held-out loss, perplexity and bits per byte of a checkpoint");
  command->add_option("run", a->file, "run spec (YAML): its data and batch size are used")->required();
  command
      ->add_option("--checkpoint", a->checkpoint, "checkpoint, run directory (its newest one), or Hugging Face folder")
      ->required();
  command->add_option("--set", a->sets, "section.key=value, over the file; repeatable")
      ->take_all()
      ->allow_extra_args(false);
  command->add_option("--samples", a->samples, "held-out samples; 0: all")->check(CLI::NonNegativeNumber);
  command->add_option("--precision", a->precision, "as in training unless given")
      ->check(CLI::IsMember({"bf16", "fp32"}));
  command->add_flag("--json", a->json, "one JSON object");
  command->callback([a] { run(*a); });
}

}  // namespace fp
