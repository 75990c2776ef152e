// FlatLayout: which ranges of a table's flat buffers a buffer holds, one after the other. Buffers of weights and
// gradients hold every unit, or this rank's shard of each; buffers of a state hold only the parameters that have it.
#pragma once

#include <optional>
#include <vector>

#include "model/params.h"

namespace fp {

class FlatLayout {
 public:
  FlatLayout() = default;
  // `sharded`: this rank's shards only. `slot`: only the parameters that have this slot of the table.
  FlatLayout(const ParamTable&, bool sharded, std::optional<int> slot = {});

  bool sharded() const { return sharded_; }
  int64_t elements() const { return elements_; }
  // Elements for which every rank of the data group allocates memory: as the rank that has most, so that all need the
  // same.
  int64_t capacity() const { return capacity_; }
  // Returns the range of the buffer that holds what it has of a range of the table's flat buffers.
  IndexRange within(const IndexRange& flat) const;
  // The same for a range that it has as a whole; otherwise throws InternalError.
  IndexRange at(const IndexRange& flat) const;
  // Returns the ranges of the table's flat buffers that it has of a unit.
  std::vector<IndexRange> ranges(const ParamUnit&) const;

 private:
  struct Run {
    IndexRange flat;
    int64_t offset = 0;  // in the buffer
  };
  int64_t before(int64_t flat) const;  // elements of the buffer that precede an element of the flat buffers

  std::vector<Run> runs_;
  int64_t elements_ = 0, capacity_ = 0;
  bool sharded_ = false;
};

}  // namespace fp
