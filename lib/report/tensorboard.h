// Writes TensorBoard event files: length-prefixed records with masked CRC-32C around hand-encoded protocol buffers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/metrics.h"

namespace fp {

// Return the CRC-32C (Castagnoli), and its masked (rotated) form that records store.
uint32_t crc32c(std::string_view bytes);
uint32_t masked_crc32c(std::string_view bytes);

// Returns a record: u64 length, its masked CRC, the event, its masked CRC; little endian.
std::string event_record(std::string_view event);

// Serialised Event messages. `wall_time` in seconds since 1970.
using Scalar = std::pair<std::string_view, float>;  // tag and value
std::string version_event(double wall_time);
std::string scalar_event(double wall_time, int64_t step, const std::vector<Scalar>& scalars);
// Marks the start of a session at `step`: readers drop the events of earlier files from that step on.
std::string session_start_event(double wall_time, int64_t step);

// Writes one event file of a run. A resumed run writes another file, whose name sorts after all earlier ones.
class EventWriter {
 public:
  // Creates events.out.tfevents.<time>.<host>.<pid>.0 in `directory`. `resume_step`: the step after which the
  // run continues.
  EventWriter(const std::filesystem::path& directory, int64_t resume_step);

  // Appends one event with the scalars of a step, as GrowingFile::append.
  void append(const StepMetrics& metrics);

  const std::filesystem::path& file() const { return file_; }

 private:
  void write(const std::string& event);

  std::filesystem::path file_;
  std::optional<GrowingFile> out_;
};

}  // namespace fp
