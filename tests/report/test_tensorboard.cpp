#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "io/filesystem.h"
#include "report/tensorboard.h"
#include "support/temporary_folder.h"

using namespace fp;
using fp::test::TemporaryFolder;

namespace {

std::string hex(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<uint8_t>(c));
  return text;
}

template <class T>
T little_endian(const std::string& bytes, size_t at) {
  T value = 0;
  REQUIRE(at + sizeof(T) <= bytes.size());
  for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(static_cast<uint8_t>(bytes[at + i])) << (8 * i);
  return value;
}

// Splits a file into its events and checks both CRCs of every record.
std::vector<std::string> events_in(const std::filesystem::path& file) {
  const std::string bytes = read_file(file);
  std::vector<std::string> events;
  for (size_t at = 0; at < bytes.size();) {
    const auto length = little_endian<uint64_t>(bytes, at);
    CHECK(little_endian<uint32_t>(bytes, at + 8) == masked_crc32c(bytes.substr(at, 8)));
    events.push_back(bytes.substr(at + 12, length));
    CHECK(little_endian<uint32_t>(bytes, at + 12 + length) == masked_crc32c(events.back()));
    at += 16 + length;
  }
  return events;
}

}  // namespace

TEST_CASE("CRC-32C matches the published check values") {
  CHECK(crc32c("123456789") == 0xe3069283u);
  CHECK(masked_crc32c("123456789") == 0xc78ab0e5u);
  CHECK(crc32c("") == 0u);
}

TEST_CASE("event records equal reference bytes") {
  CHECK(hex(event_record(version_event(1700000000.0))) ==
        "1800000000000000a37f4b220900000040fc54d9411a0d627261696e2e4576656e743a32eced8f9d");
  CHECK(hex(event_record(scalar_event(1700000001.0, 1, {{"loss", 2.5f}}))) ==
        "1a00000000000000129bd82d0900004040fc54d94110012a0d0a0b0a046c6f7373150000204096362a1a");
  // Field 7 (session_log), length 2, field 1 (status) = 1.
  CHECK(hex(session_start_event(1700000000.0, 300)) == "0900000040fc54d94110ac023a020801");
}

TEST_CASE("an event file has one event per step and the file of a resumed run sorts after it") {
  const TemporaryFolder dir;
  StepMetrics m;
  m.step = 1;
  m.loss = 2.5;
  std::filesystem::path first_file;
  {
    EventWriter first(dir.path, 0);
    first_file = first.file();
    first.append(m);
    m.step = 2;
    m.val_loss = 2.25;
    m.val_bits_per_byte = 1.75;
    first.append(m);
  }
  const std::string name = first_file.filename().string();
  CHECK(name.starts_with("events.out.tfevents."));
  CHECK(std::isdigit(static_cast<unsigned char>(name[20])));
  CHECK(name[30] == '.');
  CHECK(name.ends_with(fmt::format(".{}.0", ::getpid())));

  const auto events = events_in(first_file);
  REQUIRE(events.size() == 3);
  CHECK(events[0].find("brain.Event:2") != std::string::npos);
  CHECK(events[1].find("train/loss") != std::string::npos);
  CHECK(events[1].find("validation/loss") == std::string::npos);
  CHECK(events[2].find("validation/bits_per_byte") != std::string::npos);

  // Names increase even for files made within the same second.
  const EventWriter second(dir.path, 2), third(dir.path, 2);
  CHECK(second.file().filename() > first_file.filename());
  CHECK(third.file().filename() > second.file().filename());
  CHECK(events_in(second.file()).size() == 2);
  CHECK(events_in(first_file).size() == 3);
}

TEST_CASE("a folder that cannot be created is an error that names it") {
  const TemporaryFolder dir;
  fp::test::write_text(dir.path / "file", "x");
  CHECK_THROWS_WITH(EventWriter(dir.path / "file" / "sub", 0), Catch::Contains("file/sub"));
}
