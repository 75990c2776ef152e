// The process groups of a rank, by what the model and the trainer need them for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/comm.h"
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
};

// Every rank of the world calls it. The world must outlive the groups.
Groups make_groups(World&, const Mesh&);

// Those of my tensor-parallel ranks with these indices, of which I am one; each of them calls it, at the same place.
std::shared_ptr<Group> tensor_subgroup(const Groups&, const std::string& name, const std::vector<int>& indices);

// Of a run with a single rank.
Groups make_self_groups();

}  // namespace fp
