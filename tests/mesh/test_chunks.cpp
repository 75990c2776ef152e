// A sequence that passes through the layers in chunks trains like one that passes as a whole, on every mesh, with the
// memory that the dry run predicts.
#include <catch2/catch.hpp>

#include "mesh/mesh_run.h"

using namespace fp;
using namespace fp::test;

namespace {

// Compares plans in chunks of 5 of 12 tokens, and so three chunks of 4, with one rank in one chunk.
void check_chunks(const ModelSection& m, const std::vector<MeshPlan>& plans) {
  MeshPlan alone;
  const MeshResult one = run_mesh(m, alone);
  alone.documents = true;
  const MeshResult one_with_documents = run_mesh(m, alone);
  for (MeshPlan p : plans) {
    p.chunk = 5;
    check_trains_like(m, p, p.documents ? one_with_documents : one);
  }
}

}  // namespace

TEST_CASE("a sequence in chunks trains like a whole one, in every family and under any recomputation", "[mesh]") {
  const Recompute modes[] = {Recompute::none, Recompute::selective, Recompute::full};
  size_t i = 0;
  for (const std::string& name : tiny_names()) {
    const ModelSection m = tiny_model(name);
    CAPTURE(name);
    MeshPlan p{.recompute = modes[i++ % 3], .length = 14, .steps = 10, .documents = i % 2 == 0};
    const MeshResult one = run_mesh(m, p);
    p.chunk = i % 4 < 2 ? 7 : 3;
    check_trains_like(m, p, one);
  }
}

TEST_CASE("a sequence in chunks trains like one rank on a mesh", "[mesh]") {
  check_chunks(deep_model("llama", 4),
               {MeshPlan{.tp = 2, .sp = 2, .dp = 2, .zero = 3, .megatron = true, .recompute = Recompute::full},
                MeshPlan{.sp = 4, .documents = true}, piped(PipelineSchedule::zb_v, {.dp = 2, .zero = 3})});
}

TEST_CASE("a sequence in chunks trains like one rank on every axis", "[mesh][nightly]") {
  std::vector<MeshPlan> plans{MeshPlan{.tp = 2, .megatron = true}, MeshPlan{.sp = 2}, MeshPlan{.tp = 2}};
  for (const int zero : {0, 1, 2, 3}) plans.push_back(MeshPlan{.dp = 2, .zero = zero});
  for (const PipelineSchedule s : {PipelineSchedule::one_f_one_b, PipelineSchedule::zb_h1, PipelineSchedule::zb_v,
                                   PipelineSchedule::bitpipe, PipelineSchedule::zeropp})
    for (const MeshPlan& p : {MeshPlan{}, MeshPlan{.dp = 2, .zero = 2}, MeshPlan{.dp = 2, .zero = 3}})
      plans.push_back(piped(s, p));
  for (const char* const family : {"gpt", "llama"})
    for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
      for (MeshPlan& p : plans) p.recompute = recompute;
      check_chunks(deep_model(family, 4), plans);
    }
}

namespace {

// Compares one of every `stride` combinations of family, type and mesh with and without offloading.
void check_offloaded_chunks(size_t stride) {
  size_t i = 0;
  for (const char* const family : {"gpt", "phi3"})
    for (const DType compute : {DType::f32, DType::bf16})
      for (MeshPlan p : {MeshPlan{}, MeshPlan{.tp = 2, .megatron = true}, MeshPlan{.sp = 2},
                         MeshPlan{.dp = 2, .zero = 3}, piped(PipelineSchedule::one_f_one_b, {.micro_batches = 4}),
                         piped(PipelineSchedule::zb_v, {.micro_batches = 4})}) {
        p.chunk = i % 2 == 0 ? 4 : 6;  // of 12 tokens
        if (i++ % stride != 0) continue;
        p.compute = compute;
        p.recompute = Recompute::full;
        p.steps = 3;
        CAPTURE(family, p.text());
        const ModelSection m = deep_model(family, 4);
        const MeshResult resident = run_mesh(m, p);
        p.offload_inputs = true;
        CHECK(run_mesh(m, hampered(p)) == resident);
      }
}

}  // namespace

TEST_CASE("chunks in host memory change no bit, under any delays of the copies", "[mesh]") {
  check_offloaded_chunks(5);
}

TEST_CASE("chunks in host memory change no bit in every combination", "[mesh][nightly]") { check_offloaded_chunks(1); }

TEST_CASE("the dry run predicts both arenas of sequences in chunks to the byte", "[mesh]") {
  struct Case {
    Recompute recompute;
    int64_t chunk;
    bool offload;
  };
  for (MeshPlan p : {MeshPlan{.samples = 2}, MeshPlan{.tp = 2, .megatron = true}, MeshPlan{.sp = 2},
                     piped(PipelineSchedule::one_f_one_b, {.micro_batches = 4})})
    for (const Case& c : {Case{Recompute::selective, 8, false}, Case{Recompute::full, 8, false},
                          Case{Recompute::full, 8, true}, Case{Recompute::full, 20, true}}) {
      p.recompute = c.recompute;
      p.chunk = c.chunk;
      p.offload_inputs = c.offload;
      p.length = 40;
      p.steps = 2;
      CAPTURE(p.text(), c.offload);
      const ModelSection m = deep_model("llama", 4);
      const MeshResult real = run_mesh(m, p), counted = count_mesh(m, p);
      CHECK(real.peaks == counted.peaks);
      CHECK(real.host_peaks == counted.host_peaks);
    }
}

TEST_CASE("device memory does not grow with the number of chunks when they are offloaded", "[mesh]") {
  MeshPlan p{.recompute = Recompute::full, .micro_batches = 1, .samples = 1, .steps = 1};
  p.chunk = 16;
  p.offload_inputs = true;
  const ModelSection m = deep_model("llama", 8);
  const auto run = [&](int64_t chunks) {
    p.length = 16 * chunks;
    const MeshResult r = count_mesh(m, p);
    return std::pair{r.classes[0][static_cast<size_t>(MemoryClass::activations)], r.host_peaks[0]};
  };
  const auto [device, host] = run(32);
  const auto [device_twice, host_twice] = run(64);
  // What still grows: token ids, targets, positions and document starts (four bytes each), losses (eight), the rotary
  // tables, and nothing of the width of the model.
  const int64_t tokens = 32 * 16;
  CHECK(device_twice - device <= static_cast<size_t>(tokens * (4 * 4 + 8 + 2 * m.head_dim / 2 * 4) + 6 * 256));
  CHECK(host_twice > 2 * host - host / 8);
}
