#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/human_text.h"
#include "base/log.h"
#include "io/filesystem.h"
#include "io/log_file.h"
#include "report/progress.h"
#include "support/temporary_folder.h"

using namespace fp;
using Catch::Contains;

namespace {

ProgressState state_at(int64_t step, int64_t total) {
  ProgressState s;
  s.now.step = step;
  s.now.loss = 2.71828182;
  s.now.lr = 3e-4;
  s.now.grad_norm = 0.75;
  s.now.tokens_per_s = 12345;
  s.now.step_ms = 250;
  s.now.mfu = 0.372;
  s.total_steps = total;
  s.eta_s = 3725;
  s.val_bits_per_byte = 1.9501;
  return s;
}

int columns(const std::string& line) {
  int n = 0;
  bool escape = false;
  for (const char c : line) {
    escape |= c == '\x1b';
    if (!escape && (static_cast<uint8_t>(c) & 0xC0u) != 0x80u) ++n;
    if (c == 'm') escape = false;
  }
  return n;
}

}  // namespace

TEST_CASE("numbers are formatted with units for readers") {
  CHECK(human_count(0) == "0");
  CHECK(human_count(950) == "950");
  CHECK(human_count(12.345) == "12.3");
  CHECK(human_count(12345) == "12.3k");
  CHECK(human_count(999600) == "1.00M");
  CHECK(human_count(123.6e9) == "124B");
  CHECK(human_count(1.2e18) == "1200000T");
  CHECK(human_bytes(512) == "512 B");
  CHECK(human_bytes(3.5 * 1024 * 1024 * 1024) == "3.50 GiB");
  CHECK(human_duration(4.21) == "4.2 s");
  CHECK(human_duration(59.99) == "1m 00s");
  CHECK(human_duration(3599.6) == "1h 00m");
  CHECK(human_duration(90061) == "1d 01h");
  CHECK(human_duration(StepMetrics::kUnknown) == "?");
  CHECK(utc_time(1700000000) == "2023-11-14 22:13:20");
  for (const double strange : {-1.0, 253402300800.0, 1e41, std::nan("")}) CHECK(utc_time(strange) == "?");
  CHECK(utc_time(253402300799) == "9999-12-31 23:59:59");
}

TEST_CASE("the live line shows all items on a wide terminal") {
  const std::string line = live_line(state_at(50, 200), {120, true, false});
  CHECK_THAT(line, Contains("25%") && Contains("step 50/200") && Contains("loss 2.7183"));
  CHECK_THAT(line, Contains("12.3k tok/s") && Contains("MFU 37.2%") && Contains("ETA 1h 02m"));
  CHECK_THAT(line, Contains("bpb 1.9501") && Contains("━━━━━━──"));
  // A narrower terminal has a shorter bar and no percentage.
  CHECK_THAT(live_line(state_at(50, 200), {84, true, false}), Contains("━━────") && Contains("MFU") && Contains("ETA"));
  const std::string ascii = live_line(state_at(50, 200), {120, false, false});
  CHECK_THAT(ascii, Contains("[######------------------]"));
  for (const char c : ascii) CHECK(static_cast<uint8_t>(c) < 0x80);
}

TEST_CASE("the live line stays within the terminal and drops step and loss last") {
  for (const bool unicode : {true, false})
    for (const bool colour : {true, false})
      for (int width = 1; width <= 160; ++width) {
        const std::string line = live_line(state_at(199, 200), {width, unicode, colour});
        INFO(width << ": " << line);
        CHECK(columns(line) < width);
        if (width > 30) CHECK_THAT(line, Contains("step 199/200  loss 2.7183"));
        if (width > 45) CHECK_THAT(line, Contains("ETA"));
      }
}

TEST_CASE("unknown values are not shown") {
  ProgressState s = state_at(1, 10);
  s.now.mfu = StepMetrics::kUnknown;
  s.val_bits_per_byte.reset();
  CHECK_THAT(live_line(s, {200, false, false}), !Contains("MFU") && !Contains("val") && !Contains("bpb"));
  CHECK_THAT(plain_line(s), !Contains("MFU") && !Contains("val"));
  s.val_loss = 3.0;
  CHECK_THAT(live_line(s, {200, false, false}), Contains("val 3.0000"));
}

TEST_CASE("preferences show accuracy and margin, and mixtures the loss of each dataset") {
  ProgressState s = state_at(1, 10);
  s.now.accuracy = 0.875;
  s.now.margin = 1.25;
  CHECK_THAT(live_line(s, {200, false, false}), Contains("acc 88%"));
  CHECK_THAT(plain_line(s), Contains("| accuracy 87.5% | margin 1.25 |") && !Contains("val"));
  s.now.val_loss = 2.5;
  s.now.val_accuracy = 0.75;
  s.now.val_margin = 0.5;
  CHECK_THAT(plain_line(s), Contains("| val loss 2.5 | val accuracy 75.0% | val margin 0.5 |"));
  s.now.val_loss_of = {{"books", 2.25}, {"chat", 2.75}};
  CHECK_THAT(plain_line(s), Contains("| val loss 2.5 (books 2.25, chat 2.75) |"));
}

TEST_CASE("plain lines are logged every console_every steps, at the end and at events") {
  const fp::test::TemporaryFolder dir;
  log_to_file(dir.path / "log.txt");
  {
    Progress progress({.total_steps = 25, .console_every = 10, .stop_at_elapsed_s = std::nullopt});
    for (int64_t step = 1; step <= 25; ++step) {
      StepMetrics m = state_at(step, 25).now;
      m.elapsed_s = 2.0 * static_cast<double>(step);
      if (step == 13) m.val_loss = 2.5;
      if (step == 17) m.skipped = true;
      progress.step(m);
      // Two seconds per step, unlike step_ms: pauses are included.
      if (step > 1) CHECK(progress.state().eta_s == Approx(2.0 * static_cast<double>(25 - step)));
    }
    CHECK(*progress.state().val_loss == 2.5);
  }
  log::tee_to(FileDescriptor());
  const std::string text = read_file(dir.path / "log.txt");
  for (int64_t step = 1; step <= 25; ++step) {
    INFO(step);
    const bool expected = step == 10 || step == 13 || step == 17 || step == 20 || step == 25;
    CHECK((text.find(fmt::format("step {}/25 ", step)) != std::string::npos) == expected);
  }
  CHECK_THAT(text, Contains("loss 2.7183 |") && Contains("val loss 2.5") && Contains("update skipped"));
  CHECK_THAT(text, !Contains("\x1b"));
}

TEST_CASE("a time limit bounds the ETA") {
  Progress progress({.total_steps = 1000000, .console_every = 0, .stop_at_elapsed_s = 60.0});
  StepMetrics m = state_at(1, 1000000).now;
  m.elapsed_s = 45;
  progress.step(m);
  CHECK(progress.state().eta_s == Approx(15));
  m.step = 2;
  m.elapsed_s = 61;
  progress.step(m);
  CHECK(progress.state().eta_s == 0);
}
