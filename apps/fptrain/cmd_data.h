// The subcommands of `fptrain data` and what they share.
#pragma once

#include <string>

#include "command_line.h"
#include "data/dataset.h"
#include "data/manifest.h"

namespace fp {

void add_data_inspect(cli::App& data);
void add_data_convert(cli::App& data);

// Writes bytes to standard output as they are; DataError where that fails.
void write_out(const std::string& text);
// What `data prepare` and `data inspect` print about a prepared folder.
void print_manifest(const Manifest& manifest);

// A dataset as the command line names it.
struct DatasetArguments {
  std::string path, format = "auto", tokenizer;
  DatasetSource source() const;
};
void add_dataset_options(cli::App& command, DatasetArguments& arguments);

}  // namespace fp
