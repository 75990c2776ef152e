// fptrain data convert: converts datasets between formats. fptrain data key-values: writes a synthetic one.
#include <memory>

#include "cmd_data.h"
#include "commands.h"
#include "data/prepare/convert.h"
#include "data/prepare/key_value_corpus.h"

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

void add_data_key_values(cli::App& data) {
  struct Flags {
    DatasetArguments filler;
    KeyValueCorpusOptions options;
  };
  auto flags = std::make_shared<Flags>();
  KeyValueCorpusOptions& o = flags->options;
  cli::App* command =
      data.add_subcommand("key-values", "Write a corpus that teaches recall: texts in which key-value pairs recur");
  add_dataset_options(*command, flags->filler);
  command->add_option("--out", o.out, "Folder to create, with the tokenizer of DATASET")->required();
  command
      ->add_option(
          "--lengths", o.lengths,
          "Tokens of the documents, such as 256,512,1024: each sample has documents of one of them. Each is over "
          "64 and divides the greatest")
      ->required()
      ->delimiter(',');
  command->add_option("--samples", o.samples, "Samples, each as long as the greatest length")->required();
  command->add_flag("--ask-at-end", o.ask_at_end,
                    "Each pair occurs once in the text and once at its end, which teaches recall from afar; without "
                    "this, pairs occur again and again, which is easier to learn");
  command->add_option("--seed", o.seed, "Seed of all that is random")->capture_default_str();
  command->add_flag("--overwrite", o.overwrite, "Replace a prepared folder");
  command->callback([flags] {
    flags->options.filler = flags->filler.source();
    const KeyValueCorpusResult r = write_key_value_corpus(flags->options);
    fmt::print("{}: {} documents, {} tokens\n", flags->options.out.string(), r.documents, r.tokens);
  });
}

}  // namespace fp
