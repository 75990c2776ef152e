#include <catch2/catch.hpp>

#include "model/architecture.h"
#include "model/flat_layout.h"
#include "model/param_store.h"
#include "support/tiny_models.h"

using namespace fp;
using namespace fp::test;

namespace {

ParamTable table_with_slots(int shards, int shard) {
  ParamTable table(1, 0, shards, shard);
  declare_parameters(tiny_model("llama"), table);
  table.set_slots({{"param"},
                   {.name = "momentum", .scope = StateSlot::Scope::matrices},
                   {.name = "exp_avg", .scope = StateSlot::Scope::others}});
  return table;
}

}  // namespace

TEST_CASE("a layout has the elements of the parameters that have a slot, in table order", "[model]") {
  const int shards = GENERATE(1, 3);
  std::vector<int64_t> most(3), capacity(3);
  for (int shard = 0; shard < shards; ++shard) {
    const ParamTable table = table_with_slots(shards, shard);
    for (const std::optional<int> slot : {std::optional<int>(), {0}, {1}, {2}}) {
      const FlatLayout layout(table, shards > 1, slot);
      // A plain implementation: the flat elements that are kept, in order.
      std::vector<int64_t> kept;
      for (const ParamUnit& u : table.units())
        for (int64_t at = u.offset; at < u.offset + u.elements; ++at) {
          ParamId id = u.first;
          while (id < u.last && table[id + 1].offset <= at) ++id;
          const IndexRange own = table.shard_of(u, shard);
          if (at >= own.first && at < own.first + own.count && (!slot || table.has_slot(id, *slot))) kept.push_back(at);
        }
      REQUIRE(layout.elements() == static_cast<int64_t>(kept.size()));
      for (size_t i = 0; i < kept.size(); i += 37) {
        const int64_t n = std::min<int64_t>(60, static_cast<int64_t>(kept.size() - i));
        const IndexRange flat{kept[i], kept[i + static_cast<size_t>(n) - 1] + 1 - kept[i]};
        const IndexRange within = layout.within(flat);
        if (within.first != static_cast<int64_t>(i) || within.count != n) FAIL("element " << kept[i]);
        if (flat.count == n)
          CHECK(layout.at(flat).first == within.first);
        else
          CHECK_THROWS_AS(layout.at(flat), InternalError);
      }
      int64_t listed = 0;
      for (const ParamUnit& u : table.units())
        for (const IndexRange& s : layout.ranges(u)) listed += layout.at(s).count;
      CHECK(listed == layout.elements());
      if (!slot) continue;
      const auto i = static_cast<size_t>(*slot);
      most[i] = std::max(most[i], layout.elements());
      CHECK((shard == 0 || layout.capacity() == capacity[i]));
      capacity[i] = layout.capacity();
    }
  }
  CHECK(capacity == most);
}

TEST_CASE("a state takes memory for the parameters that have it", "[model]") {
  const ParamTable table = table_with_slots(1, 0);
  Arena arena(host_memory(1 << 22, false), 1 << 22);
  const ParamStore store(table, {DType::bf16}, arena);
  CHECK(store.slot(1).elements() + store.slot(2).elements() == table.flat_elements());
  const ParamUnit& u = table.units()[1];
  const IndexRange range = store.kept_range(u);
  const UpdateTensors tensors = store.update_tensors(range);
  for (const ParamPart& part : store.kept(u)) {
    const ParamRange r = store.range_of(part, range);
    const int slot = table[part.id].matrix ? 1 : 2;
    CHECK(r.matrix == (slot == 1));
    CHECK(tensors.param.slice(r.segment.first, part.count).data == store.state(kParamSlot, part).data);
    CHECK(tensors.states[static_cast<size_t>(slot) - 1].slice(r.state_offset, part.count).data ==
          store.state(slot, part).data);
    CHECK_THROWS_AS(store.state(3 - slot, part), InternalError);
  }
}
