// Runs of every kind that are legal, drawn by chance: small models with uneven shares on small meshes.
#pragma once

#include <optional>
#include <random>

#include "config/run_spec.h"
#include "plan/mesh.h"

namespace fp::testing {

struct RandomRun {
  RunSpec spec;
  Mesh mesh;
  std::string text() const;
};

// As many pipeline ranks as one of `pipeline`. Draws until it has a run that is legal.
RandomRun random_run(std::mt19937& random, const std::vector<int>& pipeline);

}  // namespace fp::testing
