// Fields of the sections memory and precision.
#include "config/run_spec_fields.h"

namespace fp {
namespace {

constexpr double kMostGib = 1 << 20;

void declare_places(Fields& f, OffloadSection& s) {
  f.add("device_share", s.device_share,
        {.doc = "With `optimizer: host`, the share of the parameters whose state passes through the device; the host's "
                "cores update the others at the same time, in host memory, and send the new weights. On a GPU results "
                "are equal up to rounding for all values. `parallel: {auto: [device_share]}` chooses it.",
         .min = 0,
         .max = 1});
  f.add("early_gradients", s.early_gradients,
        {.doc = "Copy the gradients of the parameters that the host updates to host memory during the backward pass, "
                "each as soon as it is complete, instead of during the update. This takes host memory for all of them: "
                "with a `device_share` of a half, 2 bytes for each parameter of the rank, 1 with bf16 gradients. "
                "Results do not change."});
  f.add("subgroup", s.subgroup,
        {.doc = "Parameters whose state is updated at a time with `optimizer: host`. The device has space for three "
                "such parts, the host for four gradients. Results do not change.",
         .unit = "parameters",
         .min = 1024,
         .max = kMaxCount});
}

}  // namespace

void declare(Fields& f, OffloadSection& s) {
  f.add("optimizer", s.optimizer,
        {.doc =
             "The optimizer's state and, in bf16, the master weights. `host`: they are in host memory and pass through "
             "the device during the update, a subgroup at a time, which delays the update where copies take longer. "
             "Results do not change."});
  f.add(
      "activations", s.activations,
      {.doc = "The inputs of layers, which are all that `memory.recompute: full` keeps of them. `host`: they leave the "
              "device while their layer computes, and come back while the backward pass is in the layer above. The "
              "input of the last layer stays, unless sequences pass in chunks. Results do not change."});
  f.add(
      "weights", s.weights,
      {.doc =
           "The weights that compute uses, and the gradients. `host`: they are in host memory, too (needs `optimizer: "
           "host`). The weights of a layer come to the device ahead of their use and are freed after it, its "
           "gradients leave as soon as they are complete, and the update writes the new weights to host memory. "
           "All micro-batches of a step pass through a layer before the next one (as with "
           "`parallel.pipeline.schedule: bfs`), so that a step moves each weight twice, and each gradient once. "
           "ZeRO 1 and 2 also shard the weights and gradients in host memory, as 3 does. Results are those of that "
           "schedule, which adds up the gradients of tied embeddings, and of ZeRO 2 and 3, in another order."});
  declare_places(f, s);
}

void declare(Fields& f, MemorySection& s) {
  f.add("recompute", s.recompute,
        {.doc = "Activations that are recomputed in the backward pass instead of stored; results do not change. "
                "`selective`: those that are cheap to compute. `full`: all of a block except its input."});
  f.add("offload", s.offload, {.doc = "What is kept in host memory instead of the device's."});
  f.add(
      "sequence_chunk_tokens", s.sequence_chunk_tokens,
      {.doc = "Tokens of a sequence that pass through a layer at a time, for long sequences: a layer needs memory for "
              "the activations of one chunk and the keys and values of the whole sequence (FPDT; with "
              "`offload.activations`, these are in host memory too). The sequence is cut into the fewest equal "
              "chunks. 0: one chunk.",
       .unit = "tokens",
       .min = 0,
       .max = kMaxCount});
  f.add("mlp_tile_tokens", s.mlp_tile_tokens,
        {.doc = "Tokens whose MLP is computed at a time, for long sequences: its wide activations are in memory for "
                "these alone, and the backward pass computes them again. 0: all tokens of a micro-batch.",
         .unit = "tokens",
         .min = 0,
         .max = kMaxCount});
  f.add("loss_chunk_tokens", s.loss_chunk_tokens,
        {.doc = "Tokens whose logits are in memory at a time. Smaller values save memory with large vocabularies.",
         .unit = "tokens",
         .min = 1,
         .max = kMaxIds});
  f.add(
      "device_gib", s.device_gib,
      {.doc = "Budget of device memory for each rank, in GiB. If it is set, the planner chooses the plannable keys of "
              "this section that you have not written, as with `memory: auto`, and takes the fastest plan within the "
              "budget. To turn that choice off, write `parallel.auto: []`. A run that needs more is refused before "
              "step 0. On CPUs, where device and host are the same memory, all tensors that are not offloaded count. "
              "0: no budget.",
       .unit = "GiB",
       .min = 0,
       .max = kMostGib});
  f.add("host_gib", s.host_gib,
        {.doc = "Budget of host memory for all ranks of a node together, in GiB, with the same effect as `device_gib`. "
                "Offloaded tensors and the staging areas of saves count. 0: no budget.",
         .unit = "GiB",
         .min = 0,
         .max = kMostGib});
  f.add("huge_pages", s.huge_pages, {.doc = "Ask the system for 2 MiB pages for the run's memory."});
}

void declare(Fields& f, PrecisionSection& s) {
  f.add("compute", s.compute,
        {.doc = "`bf16`: matrix products in bf16 with fp32 accumulation, master weights, moments and gradients. "
                "`fp32`: everything in fp32."});
  f.add("gradients", s.gradients,
        {.doc = "Type in which gradients are stored between micro-batches and sent between ranks. `bf16`: half the "
                "memory and traffic; rounded once per micro-batch."});
  f.add("stochastic_rounding", s.stochastic_rounding,
        {.doc = "Round the fp32 master weights to bf16 stochastically, so that the expected value is exact, instead of "
                "to the nearest value."});
}

}  // namespace fp
