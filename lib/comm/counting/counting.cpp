#include <cstring>

#include "comm/backends.h"

namespace fp {
namespace {

struct Nothing final : Operation {
  void wait() override {}
};

struct CountingGroup final : Group {
  using Group::Group;
  std::unique_ptr<Operation> start(const CommCall&) override { return std::make_unique<Nothing>(); }
  void gather_bytes(std::span<std::byte> all, std::span<const std::byte> mine) override {
    for (size_t at = 0; at < all.size(); at += mine.size()) std::memcpy(all.data() + at, mine.data(), mine.size());
  }
};

struct CountingWorld final : World {
  using World::World;
  std::string_view backend() const override { return "counting"; }
  std::shared_ptr<Group> make_group(const std::string& name, const std::vector<int>& ranks, int rank) override {
    return std::make_shared<CountingGroup>(name, rank, static_cast<int>(ranks.size()), record());
  }
};

}  // namespace

std::unique_ptr<World> make_counting_world(int rank, int size) { return std::make_unique<CountingWorld>(rank, size); }

}  // namespace fp
