// The process groups of a rank, by what the model and the trainer need them for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "model/params.h"
#include "plan/mesh.h"

namespace fp {

struct Groups {
  std::shared_ptr<World> own_world;  // where no one else keeps it
  World* maker = nullptr;
  Mesh mesh;
  Coordinate at;                    // of this rank
  CommRecord* record = nullptr;     // of the world's
  std::shared_ptr<Group> world;     // everybody
  std::shared_ptr<Group> tensor;    // holds the other cuts of my tensors
  std::shared_ptr<Group> sequence;  // holds the other tokens of my sequences
  std::shared_ptr<Group> tokens;    // sees the other tokens of a step: data x sequence
  std::shared_ptr<Group> data;      // holds my weights
  std::shared_ptr<Group> pipeline;  // runs the other stages of my micro-batches
  // Of a model (Model::groups()):
  std::shared_ptr<Group> copies;  // tensor-parallel ranks that hold the same copies of kv heads
  std::shared_ptr<Group> ends;    // the pipeline's first and last rank, where they share an embedding; else empty
};

// Every rank of the world calls it. The world must outlive the groups.
Groups make_groups(World&, const Mesh&);

// With the groups that follow from what the ranks hold of a model; every rank calls it.
Groups complete_groups(const Groups&, const ParamTable&);

// Of a run with a single rank.
Groups make_self_groups();

}  // namespace fp
