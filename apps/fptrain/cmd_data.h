// The subcommands of `fptrain data` and their common helpers.
#pragma once

#include <string>

#include "command_line.h"
#include "data/formats/dataset.h"
#include "data/formats/manifest.h"

namespace fp {

void add_data_inspect(cli::App& data);
void add_data_convert(cli::App& data);
void add_data_key_values(cli::App& data);

// Writes `text` to standard output through for_stdout() (base/shown.h). Throws DataError if that fails.
void write_out(const std::string& text);
// Prints the facts of a prepared folder, for `data prepare` and `data inspect`.
void print_manifest(const Manifest& manifest);

// A dataset as named on the command line.
struct DatasetArguments {
  std::string path, format = "auto", tokenizer;
  DatasetSource source() const;
};
void add_dataset_options(cli::App& command, DatasetArguments& arguments);

}  // namespace fp
