#include "comm/ranks.h"

#include <catch2/catch.hpp>
#include <numeric>

namespace fp::test {

void on_ranks(const Body& body) {
  Findings findings;
  run_worlds(body, findings);
  for (size_t i = 0; i < findings.all().size() && i < 10; ++i) UNSCOPED_INFO(findings.all()[i]);
  CHECK(findings.all().empty());
}

std::shared_ptr<fp::Group> everyone(fp::World& world, const std::string& name) {
  std::vector<int> ranks(static_cast<size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return world.group(name, ranks);
}

}  // namespace fp::test
