// How other programs name, transpose and order the parameters of a model. Parameter names and shapes are ours
// (ParamTable); they follow the Hugging Face checkpoints, so that most map onto themselves.
#pragma once

#include <string>
#include <vector>

#include "config/run_spec.h"
#include "model/params.h"

namespace fp {

enum class WeightFormat : uint8_t {
  hf,    // transformers
  meta,  // Meta's own Llama checkpoints: other names, rotary pairs (2i, 2i+1) side by side
  llmc,  // llm.c GPT-2 .bin
};

// How a logical [rows, columns] tensor lies on file.
enum class Arrangement : uint8_t {
  same,
  transposed,    // [columns, rows]: GPT-2's Conv1D
  rotary_pairs,  // row (head, half, i) is stored as row (head, i, half): Meta's wq and wk
};

struct StoredAs {
  std::string name;
  Arrangement arrangement = Arrangement::same;
  // The shape on file.
  std::vector<int64_t> shape;
};

StoredAs stored_as(WeightFormat, const ModelSection&, const Param&);

// Tensors that hold nothing trained: GPT-2's mask buffers, rotary frequencies.
bool is_buffer(const std::string& stored_name);

// The stored row of logical row `row` of a tensor of rotary pairs.
constexpr int64_t rotary_pair_row(int64_t row, int64_t head_dim) {
  const int64_t head = row / head_dim, in_head = row % head_dim, half = head_dim / 2;
  return head * head_dim + 2 * (in_head % half) + in_head / half;
}

}  // namespace fp
