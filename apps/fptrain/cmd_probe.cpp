#include <memory>

#include "commands.h"
#include "device.h"
#include "hdf5_flag.h"
#include "inference/probe.h"
#include "older_flag.h"

namespace fp {

void add_probe_command(cli::App& app, CommandResult&) {
  struct ProbeArguments {
    std::string checkpoint, tokens, out, precision = "fp32", device = "auto";
    int threads = 0;
    ProbeOptions o;
    Hdf5Flag hdf5;
    OlderFlag older;
  };
  const auto a = std::make_shared<ProbeArguments>();
  cli::App* command = app.add_subcommand(
      "probe",
      "Run one batch and write its logits, loss, gradients and updated weights, for comparison with other programs");
  command->add_option("--checkpoint", a->checkpoint, "checkpoint, run directory, or Hugging Face folder")->required();
  command
      ->add_option(
          "--batch", a->tokens,
          R"(JSON file: {"tokens": [[1, 2, ...], ...]}, optionally "targets" (default: next tokens), "reference_logp")")
      ->required();
  command->add_option("--out", a->out, "HDF5 file to write")->required();
  command->add_flag("--gradients", a->o.gradients, "also write the gradient of the mean loss");
  cli::Option* update =
      command->add_flag("--update", a->o.update, "also write the weights after one AdamW step without clipping");
  command->add_option("--lr", a->o.optimizer.lr, "learning rate of that step")
      ->capture_default_str()
      ->check(cli::PositiveNumber)
      ->needs(update);
  command->add_option("--weight-decay", a->o.optimizer.weight_decay, "weight decay of that step")
      ->capture_default_str()
      ->check(cli::NonNegativeNumber)
      ->needs(update);
  command->add_option("--dpo-beta", a->o.dpo.beta, "beta of the DPO loss, used if the batch has reference_logp")
      ->capture_default_str()
      ->check(cli::PositiveNumber);
  command->add_option("--dpo-label-smoothing", a->o.dpo.label_smoothing, "train.dpo.label_smoothing of that loss")
      ->capture_default_str()
      ->check(cli::Range(0.0, 0.5));
  command->add_option("--dpo-nll-weight", a->o.dpo.nll_weight, "train.dpo.nll_weight of that loss")
      ->capture_default_str()
      ->check(cli::NonNegativeNumber);
  command->add_option("--precision", a->precision)->capture_default_str()->check(cli::IsMember({"bf16", "fp32"}));
  command->add_option("--device", a->device)->capture_default_str()->check(cli::IsMember(kDevices));
  command->add_option("--threads", a->threads, "0: all cores")->check(cli::Range(0, 4096));
  a->hdf5.add_to(*command);
  a->older.add_to(*command);
  command->callback([a] {
    a->hdf5.apply();
    read_probe_batch(a->tokens, a->o);
    a->o.precision = *named<DType>(a->precision);
    const auto ops = open_device(device_named(a->device), a->threads);
    const auto counting = make_counting_ops(ops.get());
    probe(WeightSource(a->checkpoint, Checkpoint::Verify::all_but_tensors, a->older.value()), a->o, *ops, *counting,
          make_self_groups(), a->out);
  });
}

}  // namespace fp
