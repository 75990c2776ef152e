// Compares the parameter table of every preset with the closed formula, without allocating a model.
#include <catch2/catch.hpp>

#include "config/load.h"
#include "config/model_facts.h"
#include "model/architecture.h"

using namespace fp;

TEST_CASE("the parameter count of every preset equals the formula", "[model]") {
  int presets = 0;
  for (const auto& file : std::filesystem::directory_iterator(FP_SOURCE_DIR "/configs/models")) {
    const std::string name = file.path().stem();
    if (name == "phi-3-medium-128k") continue;  // its short factors are not public, so it cannot be loaded without them
    CAPTURE(name);
    const RunSpec spec = parse_run_spec("model: {preset: " + name + "}", "test");
    ModelSection m = spec.model;
    if (m.vocab == 0) m.vocab = 1000;
    ParamTable table;
    const ModelIds ids = declare_parameters(m, table);
    CHECK(table.logical_parameters() == parameter_count(m));
    int64_t layer = 0, memory = 0;
    for (const Param& p : table) {
      if (p.layer == 0) layer += p.shape.elements();
      memory += p.local_elements();
    }
    CHECK(layer == parameters_per_layer(m));
    CHECK(memory == parameter_count(m, padded_vocab(m)));
    CHECK(static_cast<int64_t>(ids.blocks.size()) == m.layers);
    ++presets;
  }
  CHECK(presets >= 26);
}
