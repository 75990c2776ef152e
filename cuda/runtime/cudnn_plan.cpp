// Builds the plan of a graph of operations: cuDNN's heuristics propose engines, best first, and the first one that is
// deterministic and can be built for these shapes is used.
#include <fmt/format.h>

#include <algorithm>

#include "cuda/runtime/check.h"
#include "cuda/runtime/cudnn_graph.h"

namespace fp::cuda::cudnn_api {
namespace {

bool deterministic(const Descriptor& config) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t filled = engine.get();
  config.read(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &filled);
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  const int64_t count =
      engine.read(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT, notes);
  return std::find(notes, notes + count, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) == notes + count;
}

// Returns the engine configurations that cuDNN proposes for the graph, best first.
std::vector<Descriptor> propose(const Descriptor& graph, cudnnBackendHeurMode_t mode, const Target& target) {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (target.properties != nullptr) heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.properties);
  heuristics.finalize();
  const int64_t count = heuristics.read(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr);
  std::vector<Descriptor> configs;
  std::vector<cudnnBackendDescriptor_t> filled;
  for (int64_t i = 0; i < count; ++i) filled.push_back(configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
  const int64_t got =
      heuristics.read(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, filled.data());
  while (static_cast<int64_t>(configs.size()) > got) configs.pop_back();
  return configs;
}

Descriptor plan_of(const Descriptor& config, const Target& target) {
  Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
  if (target.properties != nullptr)
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.properties);
  else
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &target.handle);
  plan.finalize();
  return plan;
}

}  // namespace

Plan Graph::build(const Target& target) const {
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const Descriptor& operation : operations_) operations.push_back(operation.get());
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(operations.size()),
            operations.data());
  if (target.properties == nullptr) graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &target.handle);
  graph.finalize();

  std::string why = "its heuristics name no engine";
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    try {
      for (const Descriptor& config : propose(graph, mode, target)) {
        if (!deterministic(config)) {
          why = "its engines for this do not give the same bits in every run";
          continue;
        }
        try {
          return Plan(plan_of(config, target), constants_);
        } catch (const Unsupported& refused) {
          why = refused.what();
        }
      }
    } catch (const Unsupported& refused) {
      why = refused.what();
    }
  }
  throw Unsupported(why);
}

Plan::Plan(Descriptor plan, std::vector<std::pair<int64_t, float>> constants)
    : plan_(std::move(plan)), constants_(std::move(constants)) {
  int64_t bytes = 0;
  plan_.read(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &bytes);
  workspace_ = static_cast<size_t>(bytes);
}

void Plan::run(cudnnHandle_t handle, std::initializer_list<Address> addresses, void* workspace) const {
  std::vector<int64_t> ids;
  std::vector<void*> pointers;
  for (const auto& [id, address] : addresses) {
    if (id < 0) continue;
    ids.push_back(id);
    pointers.push_back(address);
  }
  for (const auto& [id, number] : constants_) {
    ids.push_back(id);
    pointers.push_back(const_cast<float*>(&number));  // cuDNN only reads it, before the call returns
  }
  try {
    Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    const auto count = static_cast<int64_t>(ids.size());
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids.data());
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers.data());
    pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    pack.finalize();
    FP_CUDNN(cudnnBackendExecute(handle, plan_.get(), pack.get()));
  } catch (const Unsupported& failed) {
    fail_library(failed.what(), "cudnnBackendExecute", __FILE__, __LINE__);
  }
}

}  // namespace fp::cuda::cudnn_api
