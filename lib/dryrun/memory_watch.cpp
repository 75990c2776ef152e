#include "dryrun/memory_watch.h"

#include <algorithm>

#include "host/machine.h"
#include "host/resident_memory.h"

namespace fp {

MemoryWatch::MemoryWatch(const Ops& ops) : ops_(&ops) {
  if (const auto device = ops.device_memory()) {
    before_ = static_cast<int64_t>(device->used);
  } else {
    reset_peak_memory();
    const MemoryUse use = memory_use();
    before_ = use.resident_bytes;
    files_before_ = use.file_bytes;
  }
}

int64_t MemoryWatch::peak() const {
  const auto device = ops_->device_memory();
  if (device) return static_cast<int64_t>(device->used);
  const MemoryUse use = memory_use();
  return highest_ = std::max(highest_, use.peak_bytes - std::max<int64_t>(0, use.file_bytes - files_before_));
}

int64_t MemoryWatch::available(const Ops& ops, int sharers) {
  const auto device = ops.device_memory();
  return device ? static_cast<int64_t>(device->available) : available_on_host(sharers);
}

int64_t MemoryWatch::available_on_host(int sharers) {
  const MemoryFacts m = inspect_memory();
  return m.process_bytes < 0 ? m.available_bytes : std::min(m.available_bytes, m.process_bytes * sharers);
}

}  // namespace fp
