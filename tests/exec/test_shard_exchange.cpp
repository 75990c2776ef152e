// ShardExchange: quantized gathers and sums of shards, on one node and over several.
#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "comm/backends.h"
#include "exec/shard_exchange.h"
#include "ops/backends.h"

namespace fp::test {
namespace {

struct Place {
  int nodes, each;
  int ranks() const { return nodes * each; }
};
const std::vector<Place> kPlaces{{1, 8}, {2, 4}, {4, 2}, {8, 1}, {3, 2}};

// One rank: an environment without a model, and groups by nodes.
struct ExchangeRig {
  std::unique_ptr<Ops> ops = make_cpu_ops();
  Arena arena{ops->allocate(size_t{4} << 20, false), size_t{4} << 20};
  ParamTable table;
  Groups groups;
  ModelEnv env;
  std::unique_ptr<ShardExchange> shards;

  ExchangeRig(World& world, int ranks, const ShardFormats& formats) : table(1, 0, ranks, world.rank()) {
    groups = complete_groups(make_groups(world, Mesh(1, ranks, 1, 1, ranks)), table, true, formats.needs_nodes());
    env.ops = ops.get();
    env.arena = &arena;
    env.formats = formats;
    shards =
        std::make_unique<ShardExchange>(env, *groups.data, groups.data_in_node.get(), groups.data_across_nodes.get());
  }
  ArenaTensor filled(DType t, const std::vector<float>& values) {
    const Shape shape{static_cast<int64_t>(values.size())};
    ArenaTensor wide = arena.alloc(DType::f32, shape);
    ops->copy_in({wide, values.data()});
    if (t == DType::f32) return wide;
    ArenaTensor narrow = arena.alloc(t, shape);
    ops->cast({narrow, wide});
    return narrow;
  }
  std::vector<float> values_of(const Tensor& t) {
    Tensor wide = t;
    ArenaTensor memory;
    if (t.dtype != DType::f32) {
      memory = arena.alloc(DType::f32, t.shape);
      ops->cast({memory, t});
      wide = memory;
    }
    std::vector<float> values(static_cast<size_t>(t.elements()));
    ops->copy_out({values.data(), wide});
    return values;
  }
};

// Runs `work` on the ranks of a place, where it returns a list of numbers.
template <class Work>
std::vector<std::vector<float>> on_ranks(const Place& p, const ShardFormats& formats, const Work& work) {
  std::vector<std::vector<float>> results(static_cast<size_t>(p.ranks()));
  run_thread_ranks(p.ranks(), [&](World& world) {
    world.set_nodes(NodeMap(p.ranks(), p.each));
    ExchangeRig rig(world, p.ranks(), formats);
    const size_t before = rig.arena.in_use();
    results[static_cast<size_t>(world.rank())] = work(rig, world.rank());
    if (rig.arena.in_use() != before) results[static_cast<size_t>(world.rank())].clear();
  });
  return results;
}

// Elements of a rank's gradients: multiples of 1/8, with the largest that 4 bits represent in every block of 16.
float exact(int64_t i, int rank) {
  return i % 16 == 0 ? 0.875f : 0.125f * static_cast<float>((i * 7 + i / 16 + 3 * rank) % 15 - 7);
}

constexpr int64_t kShard = 44;  // the last block of a shard is shorter

std::vector<float> sums(const Place& p, DType t, int rank, ExchangeRig& rig,
                        const std::function<float(int64_t i, int rank)>& element) {
  std::vector<float> mine;
  for (int64_t i = 0; i < p.ranks() * kShard; ++i) mine.push_back(element(i, rank));
  const ArenaTensor whole = rig.filled(t, mine);
  const Tensor part = whole->slice(rank * kShard, kShard);
  rig.shards->start_reduce_scatter(part, whole).wait();
  return rig.values_of(part);
}

// Requires that every rank has its shard of the sums of what all ranks had.
void require_sums(const Place& p, const std::vector<std::vector<float>>& results,
                  const std::function<float(int64_t i, int rank)>& element) {
  for (int rank = 0; rank < p.ranks(); ++rank) {
    REQUIRE(results[static_cast<size_t>(rank)].size() == kShard);
    for (int64_t i = 0; i < kShard; ++i) {
      float sum = 0;
      for (int r = 0; r < p.ranks(); ++r) sum += element(rank * kShard + i, r);
      REQUIRE(results[static_cast<size_t>(rank)][static_cast<size_t>(i)] == sum);
    }
  }
}

}  // namespace

TEST_CASE("quantized sums of values that both hops represent are exact, on every arrangement of nodes", "[exec]") {
  const ShardFormats formats{{}, BlockFormat{4, 16}, BlockFormat{4, 16}};
  for (const Place& p : kPlaces)
    for (const DType t : {DType::f32, DType::bf16}) {
      CAPTURE(p.nodes, p.each, name_of(t));
      // All ranks of a node are alike, or one rank of all holds everything.
      for (const bool alike : {true, false}) {
        const auto element = [&](int64_t i, int rank) {
          return alike ? exact(i, 0) : rank == p.ranks() - 1 ? exact(i, 0) : 0.0f;
        };
        const auto results =
            on_ranks(p, formats, [&](ExchangeRig& rig, int rank) { return sums(p, t, rank, rig, element); });
        require_sums(p, results, element);
      }
    }
}

TEST_CASE("a quantized sum is off by half a step of each hop at most", "[exec]") {
  const auto element = [](int64_t i, int rank) {
    std::mt19937 random(static_cast<unsigned>(i * 64 + rank));
    return std::normal_distribution<float>()(random);
  };
  for (const Place& p : kPlaces)
    for (const int bits : {4, 8}) {
      const ShardFormats formats{{}, BlockFormat{bits, 16}, BlockFormat{8, 16}};
      CAPTURE(p.nodes, p.each, bits);
      const auto results =
          on_ranks(p, formats, [&](ExchangeRig& rig, int rank) { return sums(p, DType::f32, rank, rig, element); });
      const bool first_hop = p.each > 1, second_hop = p.nodes > 1;
      for (int rank = 0; rank < p.ranks(); ++rank)
        for (int64_t i = 0; i < kShard; ++i) {
          double sum = 0, bound = 0;
          for (int node = 0; node < p.nodes; ++node) {
            double of_node = 0, largest_sum = 0;
            for (int r = node * p.each; r < (node + 1) * p.each; ++r) {
              of_node += element(rank * kShard + i, r);
              double largest = 0;
              for (int64_t k = i / 16 * 16; k < std::min(kShard, i / 16 * 16 + 16); ++k)
                largest = std::max(largest, std::abs(static_cast<double>(element(rank * kShard + k, r))));
              largest_sum += largest;
              if (first_hop) bound += largest / 127 / 2;
            }
            if (second_hop) bound += 1.01 * largest_sum / largest_code(bits) / 2;
            sum += of_node;
          }
          REQUIRE(std::abs(results[static_cast<size_t>(rank)][static_cast<size_t>(i)] - sum) <= bound + 1e-5);
        }
    }
}

TEST_CASE("what a sum loses is part of the next one, so that sums are right on average", "[exec]") {
  // Numbers that 8 bits represent within a node, but 4 bits between nodes do not.
  const auto element = [](int64_t i, int rank) {
    return i % 16 == 0 ? 127.0f : static_cast<float>((i * 37 + rank * 11) % 19 - 9);
  };
  constexpr int kSums = 40;
  for (const Place& p : kPlaces)
    for (const DType t : {DType::f32, DType::bf16})
      for (const double feedback : {0.0, 0.5, 1.0}) {
        CAPTURE(p.nodes, p.each, name_of(t), feedback);
        ShardFormats formats{{}, BlockFormat{4, 16}, BlockFormat{p.nodes > 1 && p.each > 1 ? 8 : 4, 16}};
        formats.feedback = feedback;
        const auto results = on_ranks(p, formats, [&](ExchangeRig& rig, int rank) {
          const int64_t rows = p.nodes > 1 && p.each > 1 ? p.nodes : p.ranks();
          const ArenaTensor errors = rig.arena.alloc(DType::bf16, {rows, kShard});
          rig.ops->zero({errors});
          std::vector<float> mine, means(kShard);
          for (int64_t i = 0; i < p.ranks() * kShard; ++i) mine.push_back(element(i, rank));
          for (int s = 0; s < kSums; ++s) {
            const ArenaTensor whole = rig.filled(t, mine);
            const Tensor part = whole->slice(rank * kShard, kShard);
            rig.shards->start_reduce_scatter(part, whole, feedback > 0 ? *errors : Tensor()).wait();
            const std::vector<float> sum = rig.values_of(part);
            for (size_t i = 0; i < kShard; ++i) means[i] += sum[i] / kSums;
          }
          return means;
        });
        double worst = 0;
        for (int rank = 0; rank < p.ranks(); ++rank)
          for (int64_t i = 0; i < kShard; ++i) {
            double sum = 0;
            for (int r = 0; r < p.ranks(); ++r) sum += element(rank * kShard + i, r);
            worst = std::max(worst, std::abs(results[static_cast<size_t>(rank)][static_cast<size_t>(i)] - sum));
          }
        // The sum of the steps of those that quantize; what is left of an error that is kept is at most two of them.
        const double step = 127.0 / 7 * p.ranks(), rounding = t == DType::bf16 ? 127.0 * p.ranks() / 256 : 0;
        if (feedback == 0)
          CHECK(worst > step / 16);
        else
          CHECK(worst < step * (2 / feedback / kSums + 1.0 / 128) + rounding);
      }
}

// The elements that are sent as they are and with 8 bits: a few, across the ends of shards and blocks.
bool sent_exactly(int64_t i) { return (i >= 38 && i < 51) || i == 80; }
bool sent_with_eight_bits(int64_t i) { return i >= 60 && i < 67; }
const std::vector<FormattedParts> kParts{{BlockFormat{8, 16}, {{60, 7}}}, {std::nullopt, {{38, 13}, {80, 1}}}};
FormattedParts all_of(const Place& p, std::optional<BlockFormat> format) { return {format, {{0, p.ranks() * kShard}}}; }

TEST_CASE("parts of a sum are sent in their own formats, and count as 0 in the rest of the sum", "[exec]") {
  for (const bool by_nodes : {false, true})
    for (const Place& p : kPlaces)
      for (const DType t : {DType::f32, DType::bf16}) {
        CAPTURE(by_nodes, p.nodes, p.each, name_of(t));
        ShardFormats formats{{}, BlockFormat{4, 16}, BlockFormat{4, 16}};
        formats.by_nodes = by_nodes;
        // Large where the element is apart, so that it would change the others of its block.
        const auto element = [](int64_t i, int rank) {
          const float x = exact(5 * i + 1, rank);
          return sent_exactly(i) || sent_with_eight_bits(i) ? 64 * x : x;
        };
        const auto others = [&](int64_t i, int rank) {
          return sent_exactly(i) || sent_with_eight_bits(i) ? 0.0f : element(i, rank);
        };
        const auto run = [&](const std::function<float(int64_t, int)>& of, const std::vector<FormattedParts>& parts) {
          return on_ranks(p, formats, [&](ExchangeRig& rig, int rank) {
            std::vector<float> mine;
            for (int64_t i = 0; i < p.ranks() * kShard; ++i) mine.push_back(of(i, rank));
            const ArenaTensor whole = rig.filled(t, mine);
            const Tensor part = whole->slice(rank * kShard, kShard);
            rig.shards->start_reduce_scatter(part, whole, parts, 3).wait();
            return rig.values_of(part);
          });
        };
        for (const bool rest_in_eight_bits : {false, true}) {
          CAPTURE(rest_in_eight_bits);
          std::vector<FormattedParts> of_rest, parts = kParts;
          if (rest_in_eight_bits) {
            of_rest.push_back(all_of(p, BlockFormat{8, 16}));
            parts.insert(parts.begin(), of_rest[0]);
          }
          const auto results = run(element, parts), rest = run(others, of_rest);
          for (int rank = 0; rank < p.ranks(); ++rank) {
            const auto at = static_cast<size_t>(rank);
            REQUIRE(results[at].size() == kShard);
            for (int64_t k = 0; k < kShard; ++k) {
              const int64_t i = rank * kShard + k;
              const float got = results[at][static_cast<size_t>(k)];
              double sum = 0, largest = 0;
              for (int r = 0; r < p.ranks(); ++r) {
                sum += element(i, r);
                largest += 64 * 0.875;
              }
              CAPTURE(i);
              if (sent_exactly(i))
                REQUIRE(got == static_cast<float>(sum));
              else if (sent_with_eight_bits(i))
                REQUIRE(std::abs(got - sum) <= 2 * 1.01 * largest / 127 / 2 + (t == DType::bf16 ? 1.0 : 0));
              else
                REQUIRE(got == rest[at][static_cast<size_t>(k)]);
            }
          }
        }
      }
}

TEST_CASE("a sum that is abandoned when a rank fails leaves its memory in order", "[exec]") {
  for (const bool by_nodes : {false, true}) {
    const Place p{2, 2};
    ShardFormats formats{{}, BlockFormat{4, 16}, BlockFormat{4, 16}};
    formats.by_nodes = by_nodes;
    const auto fail = [&](const std::vector<FormattedParts>& parts) {
      on_ranks(p, formats, [&](ExchangeRig& rig, int rank) -> std::vector<float> {
        const ArenaTensor whole =
            rig.filled(DType::f32, std::vector<float>(static_cast<size_t>(p.ranks() * kShard), 1.0f));
        const auto pending = rig.shards->start_reduce_scatter(whole->slice(rank * kShard, kShard), whole, parts, 3);
        throw DataError("a failure beside it");
      });
    };
    CHECK_THROWS_WITH(fail(kParts), "a failure beside it");
    CHECK_THROWS_WITH(fail({all_of(p, std::nullopt)}), "a failure beside it");
  }
}

TEST_CASE("a sum all of which is sent in another format is the sum in that format", "[exec]") {
  const auto element = [](int64_t i, int rank) { return std::sin(static_cast<float>(i * 31 + rank * 7)); };
  const BlockFormat eight{8, 16};
  for (const Place& p : kPlaces)
    for (const DType t : {DType::f32, DType::bf16}) {
      CAPTURE(p.nodes, p.each, name_of(t));
      const auto run = [&](const ShardFormats& formats, const std::vector<FormattedParts>& parts) {
        return on_ranks(p, formats, [&](ExchangeRig& rig, int rank) {
          std::vector<float> mine;
          for (int64_t i = 0; i < p.ranks() * kShard; ++i) mine.push_back(element(i, rank));
          const ArenaTensor whole = rig.filled(t, mine);
          const Tensor part = whole->slice(rank * kShard, kShard);
          if (parts.empty())
            rig.shards->start_reduce_scatter(part, whole).wait();
          else
            rig.shards->start_reduce_scatter(part, whole, parts, 1).wait();
          return rig.values_of(part);
        });
      };
      const ShardFormats mixed{{}, BlockFormat{4, 16}, eight};
      REQUIRE(run(mixed, {all_of(p, std::nullopt)}) == run({}, {}));
      REQUIRE(run(mixed, {all_of(p, eight)}) == run({{}, eight, eight}, {}));
    }
}

TEST_CASE("a sum sent in 8 bits instead of 4, beside a quarter as it is, keeps errors and has memory", "[exec]") {
  constexpr int64_t kLarge = 8192;  // of a shard: far more than what bytes_with_parts() adds for rounding
  const BlockFormat eight{8, 16};
  const auto element = [](int64_t i, int rank) { return std::sin(static_cast<float>(i * 31 + rank * 7)); };
  for (const Place& p : kPlaces) {
    CAPTURE(p.nodes, p.each);
    const int64_t all = p.ranks() * kLarge, quarter = all / 4;
    const auto run = [&](const BlockFormat& format, const std::vector<FormattedParts>& parts) {
      ShardFormats formats{{}, format, format};
      formats.feedback = 1;
      return on_ranks(p, formats, [&](ExchangeRig& rig, int rank) {
        const int64_t rows = p.nodes > 1 && p.each > 1 ? p.nodes : p.ranks();
        const ArenaTensor errors = rig.arena.alloc(DType::bf16, {rows, kLarge});
        rig.ops->zero({errors});
        std::vector<float> mine;
        for (int64_t i = 0; i < all; ++i) mine.push_back(parts.size() == 1 && i < quarter ? 0 : element(i, rank));
        const ArenaTensor whole = rig.filled(DType::f32, mine);
        const Tensor part = whole->slice(rank * kLarge, kLarge);
        rig.shards->start_reduce_scatter(part, whole, parts, 1, *errors).wait();
        std::vector<float> result = rig.values_of(part);
        const std::vector<float> kept = rig.values_of(errors->reshaped({rows * kLarge}));
        result.insert(result.end(), kept.begin(), kept.end());
        return result;
      });
    };
    const FormattedParts in_eight_bits{eight, {{0, all}}};
    const auto mixed = run({4, 16}, {in_eight_bits, {std::nullopt, {{0, quarter}}}}),
               rest = run({4, 16}, {in_eight_bits});
    for (int rank = 0; rank < p.ranks(); ++rank)
      for (size_t k = 0; k < rest[static_cast<size_t>(rank)].size(); ++k) {
        const int64_t i = rank * kLarge + static_cast<int64_t>(k);
        double exact_sum = 0;
        for (int r = 0; r < p.ranks(); ++r) exact_sum += element(i, r);
        const float got = mixed[static_cast<size_t>(rank)][k];
        if (static_cast<int64_t>(k) < kLarge && i < quarter)
          REQUIRE(got == Approx(exact_sum).margin(1e-5));
        else
          REQUIRE(got == rest[static_cast<size_t>(rank)][k]);
      }
  }
}

TEST_CASE("exact gathers and sums are the same through nodes", "[exec]") {
  ShardFormats formats;
  formats.by_nodes = true;
  for (const Place& p : kPlaces)
    for (const DType t : {DType::f32, DType::bf16}) {
      CAPTURE(p.nodes, p.each, name_of(t));
      const auto summed =
          on_ranks(p, formats, [&](ExchangeRig& rig, int rank) { return sums(p, t, rank, rig, exact); });
      const auto gathered = on_ranks(p, formats, [&](ExchangeRig& rig, int rank) {
        std::vector<float> mine;
        for (int64_t i = 0; i < kShard; ++i) mine.push_back(exact(rank * kShard + i, rank));
        const ArenaTensor whole = rig.arena.alloc(t, {p.ranks() * kShard});
        const Tensor part = whole->slice(rank * kShard, kShard);
        rig.ops->copy({part, rig.filled(t, mine)});
        rig.shards->start_gather(whole, part).wait();
        return rig.values_of(whole);
      });
      require_sums(p, summed, exact);
      for (int rank = 0; rank < p.ranks(); ++rank) {
        REQUIRE(gathered[static_cast<size_t>(rank)].size() == static_cast<size_t>(p.ranks() * kShard));
        for (int64_t i = 0; i < p.ranks() * kShard; ++i)
          REQUIRE(gathered[static_cast<size_t>(rank)][static_cast<size_t>(i)] ==
                  exact(i, static_cast<int>(i / kShard)));
      }
    }
}

TEST_CASE("a quantized gather gives all ranks the same values, off by half a step at most", "[exec]") {
  for (const Place& p : {Place{1, 3}, Place{2, 2}})
    for (const DType t : {DType::f32, DType::bf16})
      for (const int bits : {4, 8}) {
        CAPTURE(p.nodes, p.each, name_of(t), bits);
        const ShardFormats formats{BlockFormat{bits, 16}, {}, {}};
        const auto weight = [](int64_t i) { return std::sin(static_cast<float>(i * i)); };
        const auto results = on_ranks(p, formats, [&](ExchangeRig& rig, int rank) {
          std::vector<float> mine;
          for (int64_t i = 0; i < kShard; ++i) mine.push_back(weight(rank * kShard + i));
          const ArenaTensor part = rig.filled(t, mine), whole = rig.arena.alloc(t, {p.ranks() * kShard});
          rig.shards->start_gather(whole, part).wait();
          return rig.values_of(whole);
        });
        for (const auto& r : results) REQUIRE(r == results.front());
        REQUIRE(results.front().size() == static_cast<size_t>(p.ranks() * kShard));
        const double step = 1.01 / largest_code(bits), rounding = t == DType::bf16 ? 0x1p-7 : 0;
        for (int64_t i = 0; i < p.ranks() * kShard; ++i)
          REQUIRE(std::abs(results.front()[static_cast<size_t>(i)] - weight(i)) <= step / 2 + rounding);
      }
}

// Weights that all ranks hold, and the new ones of the rank that updates them.
float held_weight(int64_t i) { return bf16(0.9f * std::sin(static_cast<float>(i * i))); }
float new_weight(int64_t i) { return held_weight(i) + 0.01f * std::cos(static_cast<float>(3 * i)); }

TEST_CASE("differences bring all ranks to the same weights, whatever the nodes, off by half a step at most", "[exec]") {
  for (const int bits : {4, 8}) {
    const ShardFormats formats{.weights = BlockFormat{bits, 16}, .differences = true, .by_nodes = true};
    std::map<int, std::vector<float>> of_ranks;  // by the number of ranks, which decides where blocks begin
    for (const Place& p : kPlaces) {
      CAPTURE(p.nodes, p.each, bits);
      const int64_t elements = p.ranks() * kShard;
      const auto after = [&](int times) {
        return on_ranks(p, formats, [&](ExchangeRig& rig, int rank) {
          std::vector<float> before, mine;
          for (int64_t i = 0; i < elements; ++i) before.push_back(held_weight(i));
          for (int64_t i = 0; i < kShard; ++i) mine.push_back(new_weight(rank * kShard + i));
          const ArenaTensor held = rig.filled(DType::bf16, before), values = rig.filled(DType::f32, mine);
          for (int t = 0; t < times; ++t) rig.shards->start_add_differences(held, values).wait();
          return rig.values_of(held);
        });
      };
      const auto once = after(1), thrice = after(3);
      for (const auto& r : once) REQUIRE(r == once.front());
      REQUIRE(once.front().size() == static_cast<size_t>(elements));
      const auto [first, is_first] = of_ranks.emplace(p.ranks(), once.front());
      REQUIRE(once.front() == first->second);
      const double step = 0.0101 / largest_code(bits);
      double later = 0;
      for (int64_t i = 0; i < elements; ++i) {
        const auto at = static_cast<size_t>(i);
        REQUIRE(std::abs(once.front()[at] - new_weight(i)) <= step / 2 + 0x1p-9);
        later = std::max(later, std::abs(static_cast<double>(thrice.front()[at] - new_weight(i))));
      }
      // What the first codes lose is sent by the next ones. Half a step of bf16 stays, and half a step of codes for it.
      CHECK(later <= 0x1p-9 * (1 + 0.51 / largest_code(bits)));
    }
  }
}

TEST_CASE("weight differences give the same weights whether each rank or each node holds them", "[exec]") {
  const ShardFormats formats{.weights = BlockFormat{4, 16}, .node_weights = true, .differences = true};
  for (const Place& p : {Place{2, 4}, Place{4, 2}, Place{3, 2}}) {
    CAPTURE(p.nodes, p.each);
    const int64_t elements = p.ranks() * kShard, part = elements / p.each;
    const auto results = on_ranks(p, formats, [&](ExchangeRig& rig, int rank) {
      std::vector<float> before, mine;
      for (int64_t i = 0; i < elements; ++i) before.push_back(held_weight(i));
      for (int64_t i = 0; i < kShard; ++i) mine.push_back(new_weight(rank * kShard + i));
      const ArenaTensor whole = rig.filled(DType::bf16, before), values = rig.filled(DType::f32, mine);
      const int64_t place = rank % p.each;
      const std::vector<float> mine_before(before.begin() + rank * kShard, before.begin() + (rank + 1) * kShard);
      const std::vector<float> kept_before(before.begin() + place * part, before.begin() + (place + 1) * part);
      const ArenaTensor kept = rig.filled(DType::bf16, kept_before), own = rig.filled(DType::bf16, mine_before);
      rig.shards->start_add_differences(whole, values).wait();
      rig.shards->start_add_differences(kept, own, values).wait();
      const bool same = rig.values_of(kept) == rig.values_of(whole->slice(place * part, part)) &&
                        rig.values_of(own) == rig.values_of(whole->slice(rank * kShard, kShard));
      return std::vector<float>{same ? 1.0f : 0.0f};
    });
    for (const auto& r : results) CHECK(r == std::vector<float>{1});
  }
}

}  // namespace fp::test
