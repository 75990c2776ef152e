// A mapping applied to one model: where each parameter lies in another program's files. Parameter names and shapes are
// ours (ParamTable).
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "config/mapping.h"
#include "config/name_pattern.h"
#include "model/params.h"

namespace fp {

// How a parameter lies on file.
struct StoredAs {
  std::shared_ptr<const NamePattern> source;
  NamePattern::Numbers numbers;
  TensorTransform transform = TensorTransform::same;
  PartPattern pattern = PartPattern::unique;
  int64_t dim = 0;              // that fragments cut; -1: as their shapes show
  std::vector<int64_t> ratios;  // relative lengths of what is cut one by one; empty: all at once
  std::vector<int64_t> shape;   // of all parts together, padding left out
  int64_t head_dim = 0;         // rows of a head, for rotary pairs

  // Whether parts are told by a number in the tensor's name.
  bool names_parts() const { return source->numbers().contains(kPartNumber); }
  // The spellings of its name; of that part's, where names_parts(). The first is what an export writes.
  std::vector<std::string> names(int64_t part = 0) const;
  std::string name() const { return names().front(); }
};

// A tensor that may be there though the model has no such parameter: it is a copy of another.
struct StoredCopy {
  StoredAs as;
  ParamId of = 0;
  size_t rule = 0;  // which says so
};

class Layout {
 public:
  Layout() = default;
  // ConfigError naming the mapping when a parameter has no rule or one that does not fit it.
  Layout(const MappingSpec&, const ModelSection&, const ParamTable&);

  const StoredAs& operator[](ParamId id) const { return stored_[static_cast<size_t>(id)]; }
  // All parameters in the order of the rules, of one rule in the table's.
  const std::vector<ParamId>& in_order_of_rules() const { return order_; }
  const std::vector<StoredCopy>& copies() const { return copies_; }
  // Whether a tensor holds nothing trained.
  bool ignores(const std::string& stored_name) const;

 private:
  std::vector<StoredAs> stored_;
  std::vector<ParamId> order_;
  std::vector<StoredCopy> copies_;
  std::vector<NamePattern> ignored_;
};

// The stored row of logical row `row` of a tensor of rotary pairs.
constexpr int64_t rotary_pair_row(int64_t row, int64_t head_dim) {
  const int64_t head = row / head_dim, in_head = row % head_dim, half = head_dim / 2;
  return head * head_dim + 2 * (in_head % half) + in_head / half;
}

}  // namespace fp
