// fptrain doctor and fptrain report on the command line.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "support/process.h"

using Catch::Contains;
using fp::test::Outcome;
using fp::test::run_shell;

namespace {

Outcome shell_fptrain(const std::string& arguments) { return run_shell("'" FP_EXECUTABLE "' " + arguments); }

}  // namespace

TEST_CASE("doctor describes the machine and succeeds") {
  const Outcome text = shell_fptrain("doctor");
  CHECK(text.code == 0);
  CHECK_THAT(text.output, Contains("CPU") && Contains("memory") && Contains("HDF5") && Contains("This machine"));
  const Outcome json = shell_fptrain("doctor --json");
  CHECK(json.code == 0);
  CHECK_THAT(json.output, Contains("\"available_bytes\"") && Contains("\"findings\""));
}

TEST_CASE("report regenerates the page of a run directory and names missing files") {
  std::string folder = (std::filesystem::temp_directory_path() / "fp_cli_XXXXXX").string();
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  const Outcome missing = shell_fptrain("report " + folder);
  CHECK(missing.code == 3);
  CHECK_THAT(missing.output, Contains("metrics.jsonl"));
  CHECK(shell_fptrain("report").code == 2);

  std::ofstream(folder + "/metrics.jsonl") << R"({"step":1,"loss":3.5,"lr":0.001,"tokens":64})"
                                           << "\n"
                                           << R"({"step":2,"loss":3.25,"lr":0.001,"tokens":128})"
                                           << "\n";
  CHECK(shell_fptrain("report " + folder).code == 0);
  CHECK(std::filesystem::file_size(folder + "/report.html") > 10000);
  CHECK(shell_fptrain("report " + folder + " --svg " + folder + "/run.svg").code == 0);
  CHECK(std::filesystem::file_size(folder + "/run.svg") > 1000);
  std::ofstream(folder + "/metrics.jsonl", std::ios::app) << "broken\n"
                                                          << R"({"step":3,"loss":3})"
                                                          << "\n";
  const Outcome broken = shell_fptrain("report " + folder);
  CHECK(broken.code == 3);
  CHECK_THAT(broken.output, Contains("metrics.jsonl:3"));
  std::ofstream(folder + "/metrics.jsonl") << "garbage\n";
  CHECK(shell_fptrain("report " + folder).code == 3);
  CHECK(std::filesystem::file_size(folder + "/report.html") > 10000);  // the good one stays
  std::filesystem::remove_all(folder);
}
