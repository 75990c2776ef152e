// The segments of a flat buffer cut into pieces of about half a megabyte, kept on the device while they stay the same.
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
  void prepare(Device&, std::span<const Segment>);
  int64_t count() const { return pieces_; }
  const Segment* pieces() const { return reinterpret_cast<const Segment*>(memory_.get()); }
  // Of each segment: its first piece and their number.
  const Segment* ranges() const { return pieces() + pieces_; }

 private:
  std::shared_ptr<std::byte> memory_;
  std::vector<Segment> known_;
  int64_t pieces_ = 0;
};

}  // namespace fp::cuda
