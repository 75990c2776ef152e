// The process groups of a rank, by the purpose for which the model and the trainer use them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "model/params.h"
#include "sharding/mesh.h"

namespace fp {

struct Groups {
  std::shared_ptr<World> own_world;  // the world, if these groups own it
  World* comm_world = nullptr;
  Mesh mesh;
  Coordinate at;                    // of this rank
  CommRecord* record = nullptr;     // of the world's traffic
  std::shared_ptr<Group> world;     // all ranks; for host values alone, as `tokens` and `pipeline`
  std::shared_ptr<Group> tensor;    // ranks with the other parts of the same tensors
  std::shared_ptr<Group> sequence;  // ranks with the other tokens of the same sequences
  std::shared_ptr<Group> tokens;    // ranks with the other tokens of a step: data x sequence
  std::shared_ptr<Group> data;      // ranks with the same weights
  std::shared_ptr<Group> pipeline;  // ranks with the other stages of the same micro-batches
  // Only in the groups of a model (Model::groups()):
  std::shared_ptr<Group> copies;    // tensor-parallel ranks that hold the same copies of kv heads
  std::shared_ptr<Group> matrices;  // ranks that keep parts of the same states of a matrix, if Muon updates them
  // Set only if sums over `data` are hierarchical and its nodes have equal numbers of its ranks: the ranks of this
  // node, and the ranks with this rank's position on every node. Only the former is set if all are on one node.
  std::shared_ptr<Group> data_in_node, data_across_nodes;
  std::shared_ptr<Group> ends;  // the pipeline's first and last rank if they share an embedding, else null
};

// Creates the groups of a mesh. Every rank of the world calls it. The world must outlive the groups.
Groups make_groups(World&, const Mesh&);

// Adds the groups that depend on the parts of a model that each rank holds. `sharded`: states are divided over the data
// group. `by_nodes`: sums over it go through nodes. Every rank calls it.
Groups complete_groups(const Groups&, const ParamTable&, bool sharded, bool by_nodes = false);

// Returns the ranks of the data group of `rank`, by node; empty if sums over it cannot be hierarchical: several nodes
// have one of its ranks each, nodes have different numbers of them, or data groups span different numbers of nodes.
std::vector<std::vector<int>> data_by_node(const Mesh&, const NodeMap&, int rank);

// Returns the number of data ranks of a node whose gradients are summed before the last quantization: all of the node's
// if sums go through several nodes, else 1.
int ranks_that_share_errors(const Mesh&, const NodeMap&);

// Creates the groups of a run with a single rank.
Groups make_self_groups();

}  // namespace fp
