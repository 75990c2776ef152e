// Rows that a model has and its source of weights has not: token ids of a larger vocabulary, or longer learned
// positions.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/tensor_reader.h"

namespace fp {

// Reads from a source in which the embedding, the LM head or the learned positions have fewer rows than in the model.
// Each row beyond the source's end is the mean of the source's rows, summed in their order, so it depends on neither
// mesh nor threads.
class GrownRows final : public TensorReader {
 public:
  // Returns the shape of a parameter in the source; nullopt: the source lacks it.
  using ShapeOf = std::function<std::optional<Shape>(const std::string& param)>;
  // Keeps references to the table and the reader.
  GrownRows(const ParamTable&, const ShapeOf&, TensorReader& source);

  // Whether a parameter of the model may have more rows than the source's tensor of this shape.
  static bool may_grow(const Param&, const Shape& in_source);

  bool empty() const { return rows_.empty(); }
  bool contains(const std::string& param) const { return rows_.contains(param); }
  void read(const std::string& param, const std::string& state, const Box&, float* data, const h5::Window&) override;
  // Subtracts the rows beyond the source's end that this rank owns. What remains, summed over all ranks, are the
  // fingerprints of the source.
  void subtract_from(Fingerprints&);

 private:
  const std::vector<float>& mean_of(const std::string& param);

  const ParamTable& table_;
  TensorReader& source_;
  std::map<std::string, Shape> rows_;  // the source's shapes of the parameters that grow
  std::map<std::string, std::vector<float>> means_;
};

}  // namespace fp
