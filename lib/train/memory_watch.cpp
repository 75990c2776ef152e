#include "train/memory_watch.h"

#include "report/machine.h"
#include "report/memory.h"

namespace fp {

MemoryWatch::MemoryWatch(const Ops& ops) : ops_(&ops) {
  if (const auto device = ops.device_memory()) {
    before_ = static_cast<int64_t>(device->used);
  } else {
    reset_peak_memory();
    before_ = memory_use().resident_bytes;
  }
}

int64_t MemoryWatch::peak() const {
  const auto device = ops_->device_memory();
  return device ? static_cast<int64_t>(device->used) : memory_use().peak_bytes;
}

int64_t MemoryWatch::available(const Ops& ops) {
  const auto device = ops.device_memory();
  return device ? static_cast<int64_t>(device->available) : inspect_memory().available_bytes;
}

}  // namespace fp
