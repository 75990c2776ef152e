// Work on data that the ranks of a run share; by default a process is alone and does all of it.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace fp {

// All ranks make the same calls in the same order.
class WorkSharing {
 public:
  virtual ~WorkSharing() = default;
  virtual int rank() const { return 0; }
  virtual int ranks() const { return 1; }
  // What rank 0 makes of `work`, on all ranks; its UserError is thrown on all.
  virtual std::string on_rank_0(const std::function<std::string()>& work) { return work(); }
  // What each rank makes of `work`, in rank order, on all ranks. The UserError of any is thrown on all and names its
  // rank and host.
  virtual std::vector<std::string> on_all(const std::function<std::string()>& work) { return {work()}; }
};

}  // namespace fp
