// fptrain data convert: converts datasets between formats.
#include <memory>

#include "cmd_data.h"
#include "commands.h"
#include "data/prepare/convert.h"

namespace fp {

void add_data_convert(cli::App& data) {
  struct Flags {
    DatasetArguments dataset;
    ConvertOptions options;
    std::string split = "train";
  };
  auto flags = std::make_shared<Flags>();
  ConvertOptions& o = flags->options;
  cli::App* command = data.add_subcommand("convert", "Write a dataset in another format");
  add_dataset_options(*command, flags->dataset);
  command->add_option("--to", o.to, "Format to write")
      ->required()
      ->check(cli::IsMember({"megatron", "prepared", "llmc", "nanogpt"}));
  command
      ->add_option("--out", o.out,
                   "megatron: prefix of the .bin and .idx; prepared: folder; llmc, nanogpt: file to write")
      ->required();
  command->add_option("--split", flags->split, "Split of a prepared folder to convert")
      ->check(cli::IsMember({"train", "validation"}))
      ->capture_default_str();
  command->add_flag("--overwrite", o.overwrite, "Replace the output of an earlier run");
  command->callback([flags] {
    flags->options.source = flags->dataset.source();
    flags->options.split = flags->split == name_of(Split::train) ? Split::train : Split::validation;
    const ConvertResult r = convert(flags->options);
    fmt::print("{}: {} documents, {} tokens\n", flags->options.out.string(), r.documents, r.tokens);
  });
}

}  // namespace fp
