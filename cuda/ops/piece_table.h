// The segments of a flat buffer, divided into pieces of about half a megabyte. The table is kept on the device as long
// as the segments stay the same.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "cuda/runtime/device.h"
#include "ops/ops.h"

namespace fp::cuda {

class PieceTable {
 public:
  static constexpr size_t kBytes = size_t{1} << 20;  // on the device

  explicit PieceTable(Device& device) : memory_(device.allocate(kBytes)) {}
  void prepare(Device&, std::span<const IndexRange>);
  int64_t count() const { return pieces_; }
  const IndexRange* pieces() const { return reinterpret_cast<const IndexRange*>(memory_.get()); }
  // For each segment: the index of its first piece and the number of its pieces.
  const IndexRange* ranges() const { return pieces() + pieces_; }

 private:
  std::shared_ptr<std::byte> memory_;
  std::vector<IndexRange> known_;
  int64_t pieces_ = 0;
};

}  // namespace fp::cuda
