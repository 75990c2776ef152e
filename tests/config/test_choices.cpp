// Enums whose values a run spec names.
#include <catch2/catch.hpp>

#include "config/choices.h"
#include "config/cluster/cluster.h"
#include "config/fields/field.h"
#include "config/load.h"
#include "config/run_spec_fields.h"

using namespace fp;

TEST_CASE("every name of an enumerator is read back as this enumerator", "[config]") {
  const auto check = [](auto of_type) {
    using E = decltype(of_type);
    const EnumNames names = names_of(E{});
    for (size_t i = 0; i < names.size(); ++i) {
      CAPTURE(names[i]);
      CHECK(named<E>(names[i]) == static_cast<E>(i));
      CHECK(name_of(static_cast<E>(i)) == names[i]);
      CHECK(fmt::format("{}", static_cast<E>(i)) == names[i]);
    }
    CHECK(named<E>("") == std::nullopt);
    CHECK(named<E>("unknown") == std::nullopt);
  };
  check(RunDevice());
  check(Family());
  check(RopeKind());
  check(DType());
  check(PipelineSchedule());
  check(Recompute());
  check(Objective());
  check(Nonfinite());
  check(LearningRateSchedule());
  check(DecayShape());
  check(Sampling());
  check(LongDocuments());
  check(Permissions());
  check(ClusterDevice());
}

TEST_CASE("the enumerators of a run spec stand for the words in YAML", "[config]") {
  const RunSpec s = parse_run_spec(
      "run: {permissions: private}\ndata: {sampling: documents, long_documents: drop}\n"
      "schedule: {kind: wsd, decay_shape: exponential}\ntrain: {objective: sft, nonfinite: skip}\n"
      "parallel: {pipeline: {ranks: 2, recompute: [none, full]}}\nmemory: {recompute: selective}\n"
      "precision: {compute: bf16, gradients: bf16}",
      "run.yaml");
  CHECK(s.run.permissions == Permissions::owner);
  CHECK(s.data.sampling == Sampling::documents);
  CHECK(s.data.long_documents == LongDocuments::drop);
  CHECK(s.schedule.kind == LearningRateSchedule::wsd);
  CHECK(s.schedule.decay_shape == DecayShape::exponential);
  CHECK(s.train.objective == Objective::sft);
  CHECK(s.train.nonfinite == Nonfinite::skip);
  CHECK(s.parallel.pipeline.recompute == std::vector{Recompute::none, Recompute::full});
  CHECK(s.memory.recompute == Recompute::selective);
  CHECK(s.precision.compute == DType::bf16);
  CHECK(s.precision.gradients == DType::bf16);
}

TEST_CASE("the types that are not for a run's products have names, too", "[config]") {
  CHECK(fmt::format("{} {}", DType::i32, DType::u8) == "i32 u8");
  CHECK(named<DType>("i32") == std::nullopt);
}
