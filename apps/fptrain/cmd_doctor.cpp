// fptrain doctor: describes this machine and what limits training on it.
#include <fmt/format.h>
#include <unistd.h>

#include <memory>

#include "commands.h"
#include "host/doctor.h"

namespace fp {

void add_doctor_command(cli::App& app, CommandResult& result) {
  struct Options {
    bool json = false;
    std::string path = ".";
  };
  const auto options = std::make_shared<Options>();
  cli::App* command = app.add_subcommand("doctor", "Describe this machine and suggest improvements for training");
  command->add_flag("--json", options->json, "Print facts and findings as JSON");
  command->add_option("--path", options->path, "Folder whose disk a run would use")->capture_default_str();
  command->callback([options, &result] {
    const MachineFacts machine = inspect_machine(options->path);
    const std::vector<Finding> findings = diagnose(machine);
    const bool colour = isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
    fmt::print("{}", options->json ? doctor_json(machine, findings) : doctor_text(findings, colour));
    result.code = ExitCode::ok;
  });
}

}  // namespace fp
