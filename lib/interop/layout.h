// A mapping applied to one model: where each parameter is stored in another program's files. Parameter names and shapes
// are those of ParamTable.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "config/mapping/mapping.h"
#include "config/mapping/name_pattern.h"
#include "model/params.h"

namespace fp {

// How a parameter is stored.
struct StoredAs {
  std::shared_ptr<const NamePattern> source;
  NamePattern::Numbers numbers;
  TensorTransform transform = TensorTransform::same;
  PartPattern pattern = PartPattern::unique;
  int64_t dim = 0;              // the dimension that fragments split; -1: inferred from their shapes
  std::vector<int64_t> ratios;  // relative lengths of the sections that are split separately; empty: one section
  std::vector<int64_t> shape;   // shape of all parts together, without padding
  int64_t head_dim = 0;         // rows of an attention head, for rotary pairs

  // Returns whether the tensors' names contain the part's number.
  bool names_parts() const { return source->numbers().contains(kPartNumber); }
  // Returns the accepted names; where names_parts(), those of this part. The first is the one that an export writes.
  std::vector<std::string> names(int64_t part = 0) const;
  std::string name() const { return names().front(); }
};

// An optional tensor that is no parameter of the model but a copy of one.
struct StoredCopy {
  StoredAs as;
  ParamId of = 0;   // the parameter it copies
  size_t rule = 0;  // index of the rule that declares it
};

class Layout {
 public:
  Layout() = default;
  // Throws ConfigError naming the mapping when a parameter has no rule or one that does not fit it.
  Layout(const MappingSpec&, const ModelSection&, const ParamTable&);

  const StoredAs& operator[](ParamId id) const { return stored_[static_cast<size_t>(id)]; }
  // Returns all parameters in the order of the rules; those of one rule in the order of the table.
  const std::vector<ParamId>& in_order_of_rules() const { return order_; }
  const std::vector<StoredCopy>& copies() const { return copies_; }
  // Returns whether the mapping ignores a tensor, because it contains nothing that is trained.
  bool ignores(const std::string& stored_name) const;

 private:
  std::vector<StoredAs> stored_;
  std::vector<ParamId> order_;
  std::vector<StoredCopy> copies_;
  std::vector<NamePattern> ignored_;
};

// Returns the stored row of logical row `row` of a tensor stored as rotary pairs.
constexpr int64_t rotary_pair_row(int64_t row, int64_t head_dim) {
  const int64_t head = row / head_dim, in_head = row % head_dim, half = head_dim / 2;
  return head * head_dim + 2 * (in_head % half) + in_head / half;
}

}  // namespace fp
