#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <csignal>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/philox.h"
#include "io/filesystem.h"
#include "report/metrics.h"
#include "support/temporary_folder.h"

using namespace fp;
using fp::test::TemporaryFolder;
using fp::test::write_text;

namespace {

StepMetrics metrics_at(int64_t step) {
  StepMetrics m;
  m.step = step;
  m.loss = 3.0 / static_cast<double>(step);
  m.lr = 6e-4;
  m.grad_norm = 1.25;
  m.tokens = step * 4096;
  m.tokens_per_s = 8192;
  m.step_ms = 500;
  m.mfu = 0.41;
  m.peak_bytes = int64_t{3} << 30;
  m.consumed_samples = step * 8;
  m.elapsed_s = 0.5 * static_cast<double>(step);
  return m;
}

std::vector<int64_t> steps_in(const std::filesystem::path& file) {
  std::vector<int64_t> steps;
  for_each_step(file, [&](const StepMetrics& m) { steps.push_back(m.step); });
  return steps;
}

}  // namespace

TEST_CASE("a metrics line is JSON with the documented keys and survives a round trip") {
  StepMetrics m = metrics_at(7);
  m.val_loss = 2.5;
  m.val_perplexity = 12.1824940;
  m.val_bits_per_byte = 1.9512345678;
  m.skipped = true;
  m.resumed = true;
  const nlohmann::json j = nlohmann::json::parse(to_json_line(m));
  for (const char* key : {"step", "loss", "lr", "grad_norm", "tokens", "tokens_per_s", "step_ms", "mfu", "peak_bytes",
                          "consumed_samples", "val_loss"})
    CHECK(j.contains(key));
  CHECK(j["step"] == 7);
  CHECK(j["peak_bytes"] == int64_t{3} << 30);
  CHECK(j["skipped"] == true);

  const auto back = parse_json_line(to_json_line(m));
  REQUIRE(back);
  CHECK(to_json_line(*back) == to_json_line(m));
  CHECK(back->step == 7);
  CHECK(*back->val_bits_per_byte == Approx(1.9512345678).epsilon(1e-8));
  CHECK(back->skipped);
}

TEST_CASE("the losses of several validation datasets have a key each") {
  StepMetrics m = metrics_at(7);
  m.val_loss = 2.5;
  m.val_loss_of = {{"books", 2.25}, {"a b/c.d", StepMetrics::kUnknown}};
  m.val_bits_per_byte_of = {{"books", 0.75}};
  const std::string line = to_json_line(m);
  const nlohmann::json j = nlohmann::json::parse(line);
  CHECK(j["val_loss.books"] == 2.25);
  CHECK(j["val_loss.a b/c.d"].is_null());
  CHECK(j["val_bits_per_byte.books"] == 0.75);
  const auto back = parse_json_line(line);
  REQUIRE(back);
  CHECK(back->val_loss_of.at("books") == 2.25);
  CHECK(std::isnan(back->val_loss_of.at("a b/c.d")));
  CHECK(to_json_line(*back) == line);
  CHECK_FALSE(parse_json_line(R"({"step":1,"loss":2,"val_loss.a":1,"val_loss.a":2})"));
  CHECK_FALSE(parse_json_line(R"({"step":1,"loss":2,"val_loss.a":"x"})"));
}

TEST_CASE("the loss by position has a key for each range and its error") {
  StepMetrics m = metrics_at(7);
  m.val_loss = 2.5;
  m.val_loss_at = {{"0-64", 3.25}, {"64-128", 2.25}};
  m.val_loss_error_at = {{"0-64", 0.125}, {"64-128", StepMetrics::kUnknown}};
  const std::string line = to_json_line(m);
  const nlohmann::json j = nlohmann::json::parse(line);
  CHECK(j["val_loss_at.64-128"] == 2.25);
  CHECK(j["val_loss_error_at.0-64"] == 0.125);
  CHECK(j["val_loss_error_at.64-128"].is_null());
  const auto back = parse_json_line(line);
  REQUIRE(back);
  CHECK(to_json_line(*back) == line);
}

TEST_CASE("nine significant digits distinguish any two fp32 losses") {
  const auto words = Philox::block({1, 2, 3, 4}, {5, 6});
  for (uint32_t i = 0; i < 1000; ++i) {
    const uint32_t bits = 0x3f800000u + (Philox::block({i, 0, 0, 0}, {words[0], words[1]})[0] >> 7);
    StepMetrics m = metrics_at(1);
    m.loss = static_cast<double>(std::bit_cast<float>(bits));
    const auto back = parse_json_line(to_json_line(m));
    REQUIRE(back);
    CHECK(std::bit_cast<uint32_t>(static_cast<float>(back->loss)) == bits);
  }
}

TEST_CASE("values that are not finite become null and absent ones are omitted") {
  StepMetrics m = metrics_at(3);
  m.loss = std::numeric_limits<double>::infinity();
  m.mfu = StepMetrics::kUnknown;
  const std::string line = to_json_line(m);
  CHECK(nlohmann::json::parse(line)["loss"].is_null());
  CHECK(nlohmann::json::parse(line)["mfu"].is_null());
  CHECK_FALSE(nlohmann::json::parse(line).contains("val_loss"));
  CHECK_FALSE(nlohmann::json::parse(line).contains("skipped"));
  const auto back = parse_json_line(line);
  REQUIRE(back);
  CHECK(std::isnan(back->loss));
  CHECK_FALSE(back->val_loss);
}

TEST_CASE("the line parser accepts spaces and unknown keys but only one complete object") {
  const auto good = parse_json_line(R"( { "step" : 4 , "note":"a \"b\" }", "x":null,"y":-1.5e3,"z":false,"loss":2 } )");
  REQUIRE(good);
  CHECK(good->step == 4);
  CHECK(good->loss == 2.0);
  const std::string whole = to_json_line(metrics_at(12));
  for (size_t n = 0; n < whole.size(); ++n) {
    INFO(whole.substr(0, n));
    CHECK_FALSE(parse_json_line(std::string_view(whole).substr(0, n)));
  }
  for (const char* bad : {"", "{}", "[]", "{\"step\":1}", "{\"loss\":1}", "{\"step\":1,\"loss\":nan}",
                          "{\"step\":1.5,\"loss\":2}", "{\"step\":1,\"loss\":2}x", "{\"step\":1,\"loss\":2,}",
                          "{\"step\":1,\"loss\":inf}", "{\"step\":99999999999999999999,\"loss\":2}"}) {
    INFO(bad);
    CHECK_FALSE(parse_json_line(bad));
  }
}

TEST_CASE("a line is in the file when append() returns") {
  const TemporaryFolder dir;
  const auto file = dir.path / "metrics.jsonl";
  MetricsWriter writer(file, 0);
  CHECK_FALSE(writer.last());
  for (int64_t step = 1; step <= 5; ++step) {
    writer.append(metrics_at(step));
    CHECK(steps_in(file).back() == step);
  }
  CHECK(writer.last()->step == 5);
  CHECK_THROWS_AS(writer.append(metrics_at(5)), InternalError);
}

TEST_CASE("a torn last line is repaired on open wherever it was cut") {
  const TemporaryFolder dir;
  const auto file = dir.path / "metrics.jsonl";
  const std::string first = to_json_line(metrics_at(1)) + "\n", second = to_json_line(metrics_at(2)) + "\n";
  for (size_t n = 0; n <= second.size(); ++n) {
    write_text(file, first + second.substr(0, n));
    const bool whole = n == second.size();
    CHECK(steps_in(file).size() == (whole ? 2u : 1u));
    {
      MetricsWriter writer(file, 10);
      writer.append(metrics_at(3));
    }
    CHECK(steps_in(file) == (whole ? std::vector<int64_t>{1, 2, 3} : std::vector<int64_t>{1, 3}));
  }
  write_text(file, first + second.substr(0, 9) + std::string(600, '\0') + "\n" + std::string(30, '\0'));
  MetricsWriter after_power_loss(file, 10);
  CHECK(read_file(file) == first);
}

// Returns how many of the steps 2 to 4 cannot be written in a process whose file size is limited between steps 1 and 5.
int failures_of_a_small_disk(const std::filesystem::path& file) {
  std::signal(SIGXFSZ, SIG_IGN);
  MetricsWriter writer(file, 0);
  writer.append(metrics_at(1));
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small{std::filesystem::file_size(file) + 10, limit.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  int failures = 0;
  for (const int64_t step : {2, 3, 4}) try {
      writer.append(metrics_at(step));
    } catch (const DataError&) {
      ++failures;
    }
  ::setrlimit(RLIMIT_FSIZE, &limit);
  writer.append(metrics_at(5));
  return failures;
}

TEST_CASE("lines that do not fit on a full disk are written once there is space") {
  const TemporaryFolder dir;
  const auto file = dir.path / "metrics.jsonl";
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(failures_of_a_small_disk(file));
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 3));
  CHECK(steps_in(file) == std::vector<int64_t>{1, 2, 3, 4, 5});
}

TEST_CASE("resuming from step S drops the lines after S and marks the first new one") {
  const TemporaryFolder dir;
  const auto file = dir.path / "metrics.jsonl";
  {
    MetricsWriter writer(file, 0);
    for (int64_t step = 1; step <= 9; ++step) writer.append(metrics_at(step));
  }
  {
    MetricsWriter writer(file, 6);
    REQUIRE(writer.last());
    CHECK(writer.last()->step == 6);
    CHECK(writer.last()->elapsed_s == 3.0);
    CHECK(steps_in(file).size() == 6);
    writer.append(metrics_at(7));
    writer.append(metrics_at(8));
  }
  CHECK(steps_in(file) == std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8});
  std::vector<int64_t> resumed;
  for_each_step(file, [&](const StepMetrics& m) {
    if (m.resumed) resumed.push_back(m.step);
  });
  CHECK(resumed == std::vector<int64_t>{7});
  const MetricsWriter fresh(file, 0);
  CHECK(std::filesystem::file_size(file) == 0);
}

TEST_CASE("an invalid line in the middle and steps that do not increase are read errors") {
  const TemporaryFolder dir;
  const auto file = dir.path / "metrics.jsonl";
  const std::string one = to_json_line(metrics_at(1)) + "\n", two = to_json_line(metrics_at(2)) + "\n";
  write_text(file, one + "garbage\n" + two);
  CHECK_THROWS_WITH(steps_in(file), Catch::Contains("metrics.jsonl:2:"));
  write_text(file, two + one);
  CHECK_THROWS_WITH(steps_in(file), Catch::Contains("metrics.jsonl:2:") && Catch::Contains("step 1"));
  CHECK_THROWS_AS(steps_in(dir.path / "none.jsonl"), DataError);
  CHECK_THROWS_AS(MetricsWriter(dir.path / "no" / "folder.jsonl", 0), DataError);
}

TEST_CASE("a run that resumes sets a damaged history aside and keeps its valid lines") {
  const TemporaryFolder dir;
  const auto file = dir.path / "metrics.jsonl";
  const auto line = [](int64_t step) { return to_json_line(metrics_at(step)) + "\n"; };
  const std::string garbage = "{\"step\":2,\"lo\x13s\":1}\n";
  struct Case {
    std::string what, text;
    std::vector<int64_t> kept;  // up to step 5
  };
  const std::vector<Case> cases = {
      {"a broken line", line(1) + garbage + line(3) + line(4), {1, 3, 4}},
      {"a broken first line", garbage + line(2) + line(3), {2, 3}},
      {"one step twice", line(1) + line(2) + line(2) + line(3), {1, 2, 3}},
      {"two steps in the wrong order", line(1) + line(3) + line(2) + line(4), {1, 2, 4}},
      {"a flipped bit in a step", line(1) + line(66) + line(3) + line(4) + line(5) + line(6), {1, 3, 4, 5}},
      {"a step that is far too low", line(3) + line(4) + line(1) + line(5), {3, 4, 5}},
      {"nothing sound up to the step", garbage + line(9) + line(9), {}}};
  for (const Case& c : cases) {
    CAPTURE(c.what);
    write_text(file, c.text);
    std::filesystem::remove(dir.path / "metrics.jsonl.broken-1");
    {
      MetricsWriter writer(file, 5);
      CHECK_THAT(writer.repair(), Catch::Contains("metrics.jsonl:") && Catch::Contains("metrics.jsonl.broken-1"));
      CHECK(steps_in(file) == c.kept);
      CHECK(read_file(dir.path / "metrics.jsonl.broken-1") == c.text);
      CHECK(writer.last().has_value() == !c.kept.empty());
      if (!c.kept.empty()) CHECK(writer.last()->step == c.kept.back());
      writer.append(metrics_at(6));
    }
    const MetricsWriter again(file, 6);
    CHECK(again.repair().empty());
    CHECK(again.last()->step == 6);
  }
  write_text(file, line(2) + line(1) + line(6));
  const MetricsWriter next(file, 5);
  CHECK(std::filesystem::exists(dir.path / "metrics.jsonl.broken-2"));
  REQUIRE(next.next_before());
  CHECK(next.next_before()->step == 6);
}

TEST_CASE("a line with a duplicate key is refused") {
  CHECK_FALSE(parse_json_line("{\"step\":1,\"loss\":2,\"step\":3}"));
  CHECK_FALSE(parse_json_line("{\"step\":1,\"loss\":2,\"sent_bytes.a.b\":1,\"sent_bytes.a.b\":2}"));
  CHECK(parse_json_line("{\"step\":1,\"loss\":2,\"sent_bytes.a.b\":1,\"sent_bytes.a.c\":2}"));
}

TEST_CASE("a line with an impossible step is not kept when a run resumes") {
  const TemporaryFolder dir;
  const auto file = dir.path / "metrics.jsonl";
  const std::string lowest = R"({"step":-9223372036854775808,"loss":5.5})";
  CHECK_FALSE(parse_json_line(lowest));
  CHECK(parse_json_line(R"({"step":1000000000000000,"loss":5.5})"));
  CHECK_FALSE(parse_json_line(R"({"step":1000000000000001,"loss":5.5})"));
  write_text(file, lowest + "\n" + to_json_line(metrics_at(1)) + "\n" + to_json_line(metrics_at(2)) + "\n");
  MetricsWriter writer(file, 2);
  writer.append(metrics_at(3));
  CHECK(steps_in(file) == std::vector<int64_t>{1, 2, 3});
}

TEST_CASE("a history without line breaks is set aside without being held in memory") {
  const TemporaryFolder dir;
  const auto file = dir.path / "metrics.jsonl";
  const std::string first = to_json_line(metrics_at(1)) + "\n", third = to_json_line(metrics_at(3)) + "\n";
  write_text(file, first + "{\"step\": 2, \"loss\": 1, \"x\": \"" + std::string(3 << 20, 'x') + "\"}\n" + third);
  CHECK_THROWS_WITH(steps_in(file), Catch::Contains("metrics.jsonl:2: not a metrics object, but valid lines follow"));
  {
    MetricsWriter writer(file, 3);
    CHECK_THAT(writer.repair(), Catch::Contains("2 of its 3 lines"));
  }
  CHECK(steps_in(file) == std::vector<int64_t>{1, 3});
  // As the last line, it is cut off like any incomplete line.
  std::filesystem::resize_file(file, uintmax_t{8} << 20);
  { MetricsWriter writer(file, 3); }
  CHECK(steps_in(file) == std::vector<int64_t>{1, 3});
  CHECK(std::filesystem::file_size(file) == first.size() + third.size());
}
