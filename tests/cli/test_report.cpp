// fptrain doctor and fptrain report, as a person calls them.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

using Catch::Contains;

namespace {

struct Outcome {
  int code;
  std::string text;  // stdout and stderr together
};

Outcome fptrain(const std::string& arguments) {
  FILE* pipe = ::popen((std::string(FP_EXECUTABLE) + " " + arguments + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  Outcome outcome{-1, ""};
  std::array<char, 4096> buffer{};
  while (const size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe)) outcome.text.append(buffer.data(), n);
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) outcome.code = WEXITSTATUS(status);
  return outcome;
}

}  // namespace

TEST_CASE("doctor tells what the machine offers and succeeds") {
  const Outcome text = fptrain("doctor");
  CHECK(text.code == 0);
  CHECK_THAT(text.text, Contains("CPU") && Contains("memory") && Contains("HDF5") && Contains("This machine"));
  const Outcome json = fptrain("doctor --json");
  CHECK(json.code == 0);
  CHECK_THAT(json.text, Contains("\"available_bytes\"") && Contains("\"findings\""));
}

TEST_CASE("report draws a run directory anew, and names what is missing") {
  std::string folder = (std::filesystem::temp_directory_path() / "fp_cli_XXXXXX").string();
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  const Outcome missing = fptrain("report " + folder);
  CHECK(missing.code == 3);
  CHECK_THAT(missing.text, Contains("metrics.jsonl"));
  CHECK(fptrain("report").code == 2);

  std::ofstream(folder + "/metrics.jsonl") << R"({"step":1,"loss":3.5,"lr":0.001,"tokens":64})"
                                           << "\n"
                                           << R"({"step":2,"loss":3.25,"lr":0.001,"tokens":128})"
                                           << "\n";
  CHECK(fptrain("report " + folder).code == 0);
  CHECK(std::filesystem::file_size(folder + "/report.html") > 10000);
  CHECK(fptrain("report " + folder + " --svg " + folder + "/run.svg").code == 0);
  CHECK(std::filesystem::file_size(folder + "/run.svg") > 1000);
  std::ofstream(folder + "/metrics.jsonl", std::ios::app) << "broken\n"
                                                          << R"({"step":3,"loss":3})"
                                                          << "\n";
  const Outcome broken = fptrain("report " + folder);
  CHECK(broken.code == 3);
  CHECK_THAT(broken.text, Contains("metrics.jsonl:3"));
  std::filesystem::remove_all(folder);
}
