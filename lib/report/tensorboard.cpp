#include "report/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/stopwatch.h"

namespace fp {
namespace {

constexpr std::string_view kPrefix = "events.out.tfevents.";

constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c & 1u) != 0 ? (c >> 1) ^ 0x82F63B78u : c >> 1;
    table[i] = c;
  }
  return table;
}

template <class T>
void put_little_endian(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(value >> (8 * i));
}

// Protocol-buffer primitives: a tag is (field number << 3 | wire type).
void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}
void put_double(std::string& out, int field, double value) {
  put_varint(out, static_cast<uint64_t>(field) << 3 | 1);
  put_little_endian(out, std::bit_cast<uint64_t>(value));
}
void put_float(std::string& out, int field, float value) {
  put_varint(out, static_cast<uint64_t>(field) << 3 | 5);
  put_little_endian(out, std::bit_cast<uint32_t>(value));
}
void put_int(std::string& out, int field, int64_t value) {
  put_varint(out, static_cast<uint64_t>(field) << 3);
  put_varint(out, static_cast<uint64_t>(value));
}
void put_bytes(std::string& out, int field, std::string_view bytes) {
  put_varint(out, static_cast<uint64_t>(field) << 3 | 2);
  put_varint(out, bytes.size());
  out += bytes;
}

// Readers sort the files of a run by name, so the time in a new name must be greater than in all earlier ones.
int64_t next_time_stamp(const std::filesystem::path& directory) {
  int64_t stamp = static_cast<int64_t>(unix_seconds());
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kPrefix)) stamp = std::max<int64_t>(stamp, std::atoll(name.c_str() + kPrefix.size()) + 1);
  }
  return stamp;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> table = crc_table();
  uint32_t c = 0xFFFFFFFFu;
  for (const char byte : bytes) c = table[(c ^ static_cast<uint8_t>(byte)) & 0xFFu] ^ (c >> 8);
  return c ^ 0xFFFFFFFFu;
}

uint32_t masked_crc32c(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xA282EAD8u; }

std::string event_record(std::string_view event) {
  std::string record;
  put_little_endian(record, static_cast<uint64_t>(event.size()));
  put_little_endian(record, masked_crc32c(record));
  record += event;
  put_little_endian(record, masked_crc32c(event));
  return record;
}

std::string version_event(double wall_time) {
  std::string event;
  put_double(event, 1, wall_time);
  put_bytes(event, 3, "brain.Event:2");
  return event;
}

std::string scalar_event(double wall_time, int64_t step, const std::vector<Scalar>& scalars) {
  std::string summary;
  for (const auto& [tag, number] : scalars) {
    std::string value;
    put_bytes(value, 1, tag);
    put_float(value, 2, number);
    put_bytes(summary, 1, value);
  }
  std::string event;
  put_double(event, 1, wall_time);
  put_int(event, 2, step);
  put_bytes(event, 5, summary);
  return event;
}

std::string session_start_event(double wall_time, int64_t step) {
  std::string session, event;
  put_int(session, 1, 1);  // SessionLog.status = START
  put_double(event, 1, wall_time);
  put_int(event, 2, step);
  put_bytes(event, 7, session);
  return event;
}

EventWriter::EventWriter(const std::filesystem::path& directory, int64_t resume_step) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw DataError(fmt::format("{}: cannot create: {}", directory.string(), error.message()));
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0 || host[0] == '\0') std::strcpy(host.data(), "localhost");
  file_ = directory / fmt::format("{}{:010d}.{}.{}.0", kPrefix, next_time_stamp(directory), host.data(), ::getpid());
  out_.emplace(file_, 0);
  write(version_event(unix_seconds()));
  if (resume_step > 0) write(session_start_event(unix_seconds(), resume_step + 1));
}

void EventWriter::append(const StepMetrics& m) {
  const auto f = [](double value) { return static_cast<float>(value); };
  std::vector<Scalar> scalars{{"train/loss", f(m.loss)},
                              {"train/learning_rate", f(m.lr)},
                              {"train/grad_norm", f(m.grad_norm)},
                              {"train/tokens", f(static_cast<double>(m.tokens))},
                              {"speed/tokens_per_s", f(m.tokens_per_s)},
                              {"speed/step_ms", f(m.step_ms)},
                              {"memory/peak_gib", f(static_cast<double>(m.peak_bytes) * 0x1p-30)}};
  if (std::isfinite(m.mfu)) scalars.emplace_back("speed/mfu", f(m.mfu));
  if (m.val_loss) scalars.emplace_back("validation/loss", f(*m.val_loss));
  if (m.val_perplexity) scalars.emplace_back("validation/perplexity", f(*m.val_perplexity));
  if (m.margin) scalars.emplace_back("train/reward_margin", f(*m.margin));
  if (m.accuracy) scalars.emplace_back("train/preference_accuracy", f(*m.accuracy));
  if (m.val_margin) scalars.emplace_back("validation/reward_margin", f(*m.val_margin));
  if (m.val_accuracy) scalars.emplace_back("validation/preference_accuracy", f(*m.val_accuracy));
  if (m.val_bits_per_byte) scalars.emplace_back("validation/bits_per_byte", f(*m.val_bits_per_byte));
  std::vector<std::string> tags;  // of datasets; `scalars` only refers to its tags
  tags.reserve(m.val_loss_of.size() + m.val_bits_per_byte_of.size());
  for (const auto& [label, loss] : m.val_loss_of)
    scalars.emplace_back(tags.emplace_back("validation/loss/" + label), f(loss));
  for (const auto& [label, bits] : m.val_bits_per_byte_of)
    scalars.emplace_back(tags.emplace_back("validation/bits_per_byte/" + label), f(bits));
  write(scalar_event(unix_seconds(), m.step, scalars));
}

void EventWriter::write(const std::string& event) { out_->append(event_record(event)); }

}  // namespace fp
