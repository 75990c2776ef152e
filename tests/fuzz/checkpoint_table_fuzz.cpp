#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/fragment_table.h"
#include "target.h"

namespace {

// Requires that the fragments contain each element exactly once, by counting.
void require_each_once(const fp::CheckpointParam& param, const std::vector<fp::StoredFragment>& fragments) {
  const int64_t rows = param.shape[0], columns = param.shape.elements() / rows;
  const int64_t inner = param.shape.rank() < 2 ? 1 : columns / param.shape[1];
  std::vector<int> times(static_cast<size_t>(rows * columns));
  for (const fp::StoredFragment& f : fragments) {
    const bool vector = param.shape.rank() < 2;
    const int64_t column = vector ? 0 : f.box.start[1] * inner, width = vector ? 1 : f.box.count[1] * inner;
    for (int64_t r = f.box.start[0]; r < f.box.start[0] + f.box.count[0]; ++r)
      for (int64_t c = column; c < column + width; ++c) ++times.at(static_cast<size_t>(r * columns + c));
  }
  for (const int n : times) FP_CHECK(n == 1, "an element of {} is held {} times", param.name, n);
}

}  // namespace

// Arbitrary numbers as index.bin of a checkpoint with three tensors. An accepted table serializes to the same bytes,
// and a tensor that is reported as complete has each element exactly once.
FP_FUZZ_TARGET(checkpoint_table) {
  const std::vector<fp::CheckpointParam> parameters = {
      {"embed.weight", {4, 6}, {{"param", 1}, {"exp_avg", 2}, {"exp_avg_sq", 3}}},
      {"norm.weight", {5}, {{"param", 4}}},
      {"conv.weight", {2, 3, 2}, {{"param", 5}}}};
  fp_fuzz::accept_or_refuse([&] {
    const fp::FragmentTable table(fp_fuzz::text_of(data, size), parameters, "input");
    std::vector<fp::IndexedParam> indexed;
    for (const fp::CheckpointParam& p : parameters) {
      indexed.push_back({p, {}});
      for (const fp::StoredState& state : p.states) {
        const std::vector<fp::StoredFragment> fragments = table.fragments(p, state.name);
        if (tiling_error(p.shape, fragments).empty()) require_each_once(p, fragments);
        indexed.back().fragments.push_back(fragments);
      }
    }
    FP_CHECK(serialize_fragments(indexed) == fp_fuzz::text_of(data, size), "not as it was written");
  });
  return 0;
}
