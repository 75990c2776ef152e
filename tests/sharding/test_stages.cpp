// The layers of each pipeline rank, and the ranks that hold the same ones.
#include <catch2/catch.hpp>
#include <numeric>

#include "config/load.h"
#include "config/model_facts.h"
#include "sharding/arrange.h"
#include "sharding/pipeline_plan.h"

using namespace fp;

namespace {

ModelSection model_of(const std::string& more) {
  return parse_run_spec("model: {family: llama, vocab: 1000, hidden: 64, heads: 4, ffn: 172, " + more + "}", "t").model;
}

std::vector<int64_t> layers_of(const std::vector<StagePart>& stages) {
  std::vector<int64_t> layers;
  for (const StagePart& s : stages) layers.push_back(s.layers);
  return layers;
}

double worst(const ModelSection& m, const std::vector<int64_t>& layers) {
  double worst = 0;
  for (size_t s = 0; s < layers.size(); ++s)
    worst = std::max(worst, static_cast<double>(layers[s]) * layer_flops_per_token(m, 0, 128) +
                                (s + 1 == layers.size() ? head_flops_per_token(m) : 0));
  return worst;
}

std::string refusal(const std::string& text, int ranks) {
  try {
    RunSpec spec = parse_run_spec(text, "t");
    arrange(spec, ranks);
    plan_pipeline(spec).step(static_cast<int>(spec.train.global_batch / spec.train.micro_batch));
    return "accepted";
  } catch (const UserError& e) {
    return e.what();
  }
}

}  // namespace

TEST_CASE("layers are cut such that the most expensive stage costs least", "[sharding]") {
  for (const int64_t layers : {4, 7, 12})
    for (const int stages : {2, 3, 4, 6}) {
      const ModelSection m = model_of(fmt::format("layers: {}", layers));
      if (stages > layers + 2) continue;
      const std::vector<int64_t> cut = layers_of(cut_into_stages(m, 128, {}, stages));
      INFO("layers " << layers << ", stages " << stages);
      REQUIRE(std::accumulate(cut.begin(), cut.end(), int64_t{0}) == layers);
      CHECK(static_cast<int>(cut.size()) == stages);
      // Moving a layer over any border does not make the most expensive stage cheaper.
      for (size_t s = 0; s + 1 < cut.size(); ++s)
        for (const int64_t move : {-1, 1}) {
          std::vector<int64_t> other = cut;
          other[s] += move;
          other[s + 1] -= move;
          const bool legal = std::all_of(other.begin(), other.end(), [](int64_t n) { return n >= 0; });
          if (legal) CHECK(worst(m, cut) <= worst(m, other) * (1 + 1e-12));
        }
    }
}

TEST_CASE("the stage of a large LM head has fewer layers", "[sharding]") {
  const ModelSection m = model_of("layers: 16, pad_vocab_to: 1");
  ModelSection large = m;
  large.vocab = 100000;
  CHECK(layers_of(cut_into_stages(large, 128, {}, 4)).back() < layers_of(cut_into_stages(m, 128, {}, 4)).back());
  CHECK(layers_of(cut_into_stages(large, 128, {}, 4)).back() == 0);
}

TEST_CASE("a rank holds the layers of its stages and both ranks of a two-way pair hold the same", "[sharding]") {
  const ModelSection m = model_of("layers: 8");
  const auto stages = cut_into_stages(m, 128, {1, 1, 1, 1, 1, 1, 1, 1}, 8);
  const Placement v{.ranks = 4, .chunks = 2, .zigzag = true};
  const HeldParts first = held_by(stages, v, 0), last = held_by(stages, v, 3);
  CHECK((first.embedding && first.head && first.layer(0) && first.layer(7) && !first.layer(3)));
  CHECK((!last.embedding && !last.head && last.layer(3) && last.layer(4)));
  const Placement two_way{.ranks = 4, .chunks = 2, .zigzag = true, .two_way = true};
  for (const int r : {0, 1}) CHECK(held_by(stages, two_way, r).layers == held_by(stages, two_way, 3 - r).layers);
  const Mesh mesh(4, 2, 1, 2, 16, true);
  CHECK(mesh.data(0) == std::vector<int>{0, 2, 12, 14});
  CHECK(mesh.data(14) == std::vector<int>{0, 2, 12, 14});
  CHECK(mesh.tokens(14) == std::vector<int>{12, 14});
  CHECK(mesh.pipeline(5) == std::vector<int>{1, 5, 9, 13});
}

TEST_CASE("impossible pipelines are refused with the legal values", "[sharding]") {
  const std::string llama = "model: {family: llama, vocab: 100, layers: 4, hidden: 32, heads: 4, ffn: 64}\n";
  const auto with = [&](const std::string& pipeline, const std::string& train = "global_batch: 8, micro_batch: 1") {
    return llama + "train: {" + train + "}\nparallel: {pipeline: {" + pipeline + "}}";
  };
  CHECK(refusal(with("ranks: 4"), 4) == "accepted");
  CHECK_THAT(refusal(with("ranks: 4"), 3), Catch::Contains("mpirun -np 4"));
  CHECK_THAT(refusal(with("ranks: 4, schedule: interleaved, chunks: 3"), 4), Catch::Contains("use 6 stages at most"));
  CHECK_THAT(refusal(with("ranks: 4, layers: [1, 1, 1]"), 4), Catch::Contains("4 numbers with the sum 4"));
  CHECK_THAT(refusal(with("ranks: 4, layers: [2, 0, 1, 1]"), 4), Catch::Contains("stage 1 of 4 has no layer"));
  CHECK(refusal(with("ranks: 4, layers: [0, 2, 2, 0]"), 4) == "accepted");
  CHECK_THAT(refusal(with("ranks: 2, recompute: [full]"), 2), Catch::Contains("1 entry for 2 stages"));
  CHECK_THAT(refusal(with("ranks: 3, schedule: chimera"), 3), Catch::Contains("even"));
  CHECK_THAT(refusal(with("ranks: 4, schedule: chimera", "global_batch: 6, micro_batch: 1"), 4),
             Catch::Contains("4, 8"));
  CHECK_THAT(refusal(with("ranks: 2, schedule: zb-v, w_pass: true"), 2), Catch::Contains("zb-v"));
  CHECK_THAT(refusal(with("ranks: 2, schedule_file: /nowhere.csv"), 2), Catch::Contains("/nowhere.csv"));
}
