#include "comm/comm.h"

namespace fp {
namespace {

// One rank: sums and maxima over ranks are the values themselves.
class SelfGroup final : public Group {
 public:
  std::string_view backend() const override { return "self"; }
  int size() const override { return 1; }
  int rank() const override { return 0; }
  void all_reduce_sum(const Tensor&) override {}
  void all_reduce_max(const Tensor&) override {}
  void all_reduce_sum(std::span<double>) override {}
  void all_reduce_max(std::span<double>) override {}
  void barrier() override {}
};

}  // namespace

Groups make_self_groups() {
  const auto self = std::make_shared<SelfGroup>();
  return {self, self, self};
}

}  // namespace fp
