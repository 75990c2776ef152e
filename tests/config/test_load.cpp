// Reading, overriding, resolving and dumping run specs.
#include <catch2/catch.hpp>

#include "config/load.h"

using namespace fp;

TEST_CASE("an empty map is a spec of defaults", "[config]") {
  const RunSpec spec = parse_run_spec("{}", "t.yaml");
  RunSpec expected;
  resolve(expected);
  CHECK(spec == expected);
  CHECK(spec.model.kv_heads == 12);
  CHECK(spec.model.head_dim == 64);
  CHECK(spec.model.ffn == 3072);
}

TEST_CASE("a dump reads back to an equal spec", "[config]") {
  const RunSpec spec = parse_run_spec("model: {preset: phi-3-mini-128k}\noptimizer: {lr: 0.1}", "t.yaml");
  CHECK(parse_run_spec(dump(spec), "dump") == spec);
}
