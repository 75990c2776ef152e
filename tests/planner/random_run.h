// Random legal runs of every kind: small models that split unevenly, on small meshes.
#pragma once

#include <optional>
#include <random>

#include "config/run_spec.h"
#include "sharding/mesh.h"

namespace fp::test {

struct RandomRun {
  RunSpec spec;
  Mesh mesh;
  std::string text() const;
};

// Returns a random legal run whose number of pipeline ranks is one of `pipeline`.
RandomRun random_run(std::mt19937& random, const std::vector<int>& pipeline);

}  // namespace fp::test
