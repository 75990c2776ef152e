#include "comm/counting.h"

#include "comm/host_reduce.h"

namespace fp {
namespace {

// Holds its scratch while in flight.
class Counted final : public Operation {
 public:
  Counted(CountingWorld& world, size_t scratch, double handle) : world_(world), scratch_(scratch), handle_(handle) {
    world_.allocate_scratch(scratch_);
  }
  ~Counted() override { world_.free_scratch(scratch_); }
  void wait() override {
    if (world_.observer() != nullptr) world_.observer()->waited(handle_);
  }

 private:
  CountingWorld& world_;
  size_t scratch_;
  double handle_;
};

class CountingGroup final : public Group {
 public:
  CountingGroup(const std::string& name, int rank, const std::vector<int>& ranks, bool pair, CountingWorld& world)
      : Group(name, rank, static_cast<int>(ranks.size()), world.record()), ranks_(ranks), pair_(pair), world_(world) {}
  std::unique_ptr<Operation> start(const CommCall& call) override {
    if (!connected_) world_.connected(pair_);
    connected_ = true;
    const DType dtype = call.from ? call.from.dtype : call.to.dtype;
    const int64_t sent = sent_elements(call, rank(), size()) * static_cast<int64_t>(size_of(dtype));
    return std::make_unique<Counted>(world_, sum_scratch_bytes(call, rank(), size()),
                                     started(call.kind, sent, uneven_pieces(call)));
  }
  bool host_values_travel(int64_t sent) override {
    const double handle = started(CommKind::host, sent, {});
    if (world_.observer() != nullptr) world_.observer()->waited(handle);
    return false;
  }

 private:
  double started(CommKind kind, int64_t sent, const UnevenPieces& pieces) {
    return world_.observer() != nullptr ? world_.observer()->started(kind, name(), ranks_, sent, pieces) : 0;
  }

  std::vector<int> ranks_;
  bool pair_, connected_ = false;
  CountingWorld& world_;
};

class GroupCounter final : public CountingWorld {
 public:
  using CountingWorld::CountingWorld;
  std::string_view backend() const override { return "counting"; }
  std::shared_ptr<Group> make_group(const std::string& name, const std::vector<int>& ranks, int rank) override {
    return std::make_shared<CountingGroup>(name, rank, ranks, false, *this);
  }
  std::shared_ptr<Group> make_pair(const std::string& name, const std::vector<int>& ranks, int rank) override {
    return std::make_shared<CountingGroup>(name, rank, ranks, true, *this);
  }
};

}  // namespace

std::unique_ptr<CountingWorld> make_counting_world(int rank, int size) {
  return std::make_unique<GroupCounter>(rank, size);
}

}  // namespace fp
