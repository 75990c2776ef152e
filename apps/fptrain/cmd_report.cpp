// fptrain report: regenerates the report.html of a run, or draws a picture of its loss curve.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "commands.h"
#include "report/report_html.h"
#include "train/permissions.h"

namespace fp {

void add_report_command(cli::App& app, CommandResult& result) {
  struct Options {
    std::string directory, svg;
  };
  const auto options = std::make_shared<Options>();
  cli::App* command = app.add_subcommand("report", "Regenerate report.html of a run directory");
  command->add_option("RUN_DIR", options->directory, "Run directory: the folder with metrics.jsonl")->required();
  command->add_option("--svg", options->svg, "Write only a picture of the loss curve, to this file");
  command->callback([options, &result] {
    const std::filesystem::path directory = options->directory;
    if (!options->svg.empty()) {
      write_loss_picture(directory, options->svg);
      fmt::print("{}\n", options->svg);
    } else {
      write_as_private_as(directory);
      write_report(directory);
      fmt::print("{}\n", (directory / "report.html").string());
    }
    result.code = ExitCode::ok;
  });
}

}  // namespace fp
