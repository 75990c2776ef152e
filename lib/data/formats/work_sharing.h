// An interface by which the ranks of a run share work on data. The base class is a single process that does all of it.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace fp {

// All ranks must make the same calls in the same order.
class WorkSharing {
 public:
  virtual ~WorkSharing() = default;
  virtual int rank() const { return 0; }
  virtual int ranks() const { return 1; }
  // Runs `work` on rank 0 and returns its result on all ranks. A UserError of rank 0 is thrown on all.
  virtual std::string on_rank_0(const std::function<std::string()>& work) { return work(); }
  // Runs `work` on every rank and returns all results, in rank order, on all ranks. A UserError of any rank is thrown
  // on all and names its rank and host.
  virtual std::vector<std::string> on_all(const std::function<std::string()>& work) { return {work()}; }
};

}  // namespace fp
