// A synthetic cluster for tests.
#pragma once

#include "config/cluster/cluster.h"

namespace fp {

// Products of any shape run at 100 TFLOP/s, also beside communication, all other ops at 1 TB/s; links have 100 GB/s
// within a node and 10 GB/s between nodes, and 50 GB/s between a device and its host.
inline ClusterSpec small_cluster(int ranks_per_node = 8) {
  ClusterSpec c;
  c.name = "made up";
  c.source = "tests";
  c.ranks_per_node = ranks_per_node;
  c.memory_gib = 80;
  c.slower_beside_communication = 0;
  c.host_gb_per_s = 50;
  NodeProfile n;
  n.ranks = ranks_per_node;
  n.peak_tflops_bf16 = 200;
  n.peak_tflops_fp32 = 50;
  for (const char* op : {"linear", "linear_backward_input", "linear_backward_weight"})
    for (const char* compute : {"bf16", "fp32"}) n.products.push_back({op, compute, 100, 0, 0, 0, 0});
  n.ops = {{"attention", "", 0, 50, 0}, {"attention_backward", "", 0, 50, 0}, {"other", "", 1000, 0, 0}};
  n.links = {{"ranks", "any", 5, 100}, {"nodes", "any", 10, 10}};
  c.profiles = {n};
  return c;
}

}  // namespace fp
