// fptrain checkpoint import | export
#include <memory>

#include "base/human_text.h"
#include "checkpoint/folder.h"
#include "commands.h"
#include "hdf5_flag.h"
#include "interop/transfer.h"
#include "older_flag.h"

namespace fp {
namespace {

void add_import(cli::App& checkpoint) {
  struct TransferArguments {
    ImportOptions o;
    bool no_tokenizer = false;
  };
  const auto a = std::make_shared<TransferArguments>();
  cli::App* command = checkpoint.add_subcommand(
      "import", "Make a checkpoint from another program's model: Hugging Face, Meta (Llama), llm.c (GPT-2)");
  command
      ->add_option("--from", a->o.from,
                   "folder with config.json and safetensors, .safetensors file, or llm.c .bin file")
      ->required();
  command->add_option("--to", a->o.to, "path of the new checkpoint")->required();
  command->add_option(
      "--format", a->o.source.format,
      "format of safetensors: hf (default), or meta (Meta's names, order of rows and parts); llm.c files are "
      "recognised");
  command
      ->add_option("--mapping", a->o.source.mapping,
                   "mapping file (docs/mapping-files.md) or name of a mapping, instead of --format")
      ->excludes("--format");
  command->add_option("--config", a->o.source.config, "path of config.json, if it is not beside the weights");
  command
      ->add_option("--sliding-window", a->o.sliding_window,
                   "phi3: number of keys that a query attends to, its own included, instead of config.json's "
                   "sliding_window; 0: all")
      ->check(cli::NonNegativeNumber);
  command->add_flag("--no-tokenizer", a->no_tokenizer, "do not import a tokenizer beside the weights");
  command->callback([a] {
    a->o.tokenizer = !a->no_tokenizer;
    a->o.version = FPTRAIN_VERSION;
    import_model(a->o);
    const CheckpointManifest m = check_sizes(a->o.to);
    int64_t parameters = 0;
    for (const CheckpointParam& p : m.parameters) parameters += p.shape.elements();
    fmt::print("{}: {} parameters in {} tensors, {}\n", a->o.to.string(), parameters, m.parameters.size(),
               m.file(CheckpointManifest::kTokenizerName) != nullptr ? "with its tokenizer" : "no tokenizer");
  });
}

void add_export(cli::App& checkpoint) {
  struct TransferArguments {
    std::string path, dtype = "auto";
    ExportOptions o;
    double shard_gb = 5;
    Hdf5Flag hdf5;
    OlderFlag older;
  };
  const auto a = std::make_shared<TransferArguments>();
  cli::App* command = checkpoint.add_subcommand("export", "Write a checkpoint's weights as a Hugging Face folder");
  command->add_option("path", a->path, "checkpoint, or run directory (its newest one)")->required();
  command->add_option("--format", a->o.format, "names and layout of tensors: hf, or meta (Llama)")
      ->capture_default_str();
  command
      ->add_option("--mapping", a->o.mapping,
                   "mapping file or name of a mapping, applied in reverse, instead of --format")
      ->excludes("--format");
  command->add_option("--to", a->o.to, "path of the new folder")->required();
  command
      ->add_option("--dtype", a->dtype,
                   "auto (that of an imported model, else the run's compute type), bf16, f16 or f32")
      ->capture_default_str()
      ->check(cli::IsMember({"auto", "bf16", "f16", "f32"}));
  command->add_option("--shard-size", a->shard_gb, "maximum GB (10^9 bytes) of tensors per file")
      ->capture_default_str()
      ->check(cli::Range(1e-6, 1e6));
  a->hdf5.add_to(*command);
  a->older.add_to(*command);
  command->callback([a] {
    a->hdf5.apply();
    if (a->dtype != "auto")
      a->o.type = a->dtype == "f32" ? ElementType::f32 : a->dtype == "f16" ? ElementType::f16 : ElementType::bf16;
    a->o.shard_bytes = static_cast<uint64_t>(a->shard_gb * 1e9);
    const Checkpoint source = open_checkpoint_at(a->path, Checkpoint::Verify::everything, a->older.value());
    const ExportSummary s = export_model(source, a->o);
    fmt::print("{}: step {}, {} tensors, {} in {} file{}, {}\n", a->o.to.string(), source.manifest().step, s.tensors,
               human_bytes(static_cast<double>(s.bytes)), s.files, s.files == 1 ? "" : "s",
               s.tokenizer ? "with its tokenizer" : "without a tokenizer");
  });
}

}  // namespace

void add_checkpoint_transfer_commands(cli::App& checkpoint) {
  add_import(checkpoint);
  add_export(checkpoint);
}

}  // namespace fp
