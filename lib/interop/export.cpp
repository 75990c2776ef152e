#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "config/load.h"
#include "interop/companions.h"
#include "interop/safetensors.h"
#include "interop/transfer.h"
#include "io/filesystem.h"
#include "io/pending.h"
#include "model/architecture.h"

namespace fp {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

// A tensor to export.
struct Outgoing {
  Param param;
  StoredAs as;
  ElementType type;
  uint64_t bytes() const { return static_cast<uint64_t>(param.shape.elements()) * size_of(type); }
};

std::vector<Outgoing> list_tensors(const RunSpec& spec, const TrainState& state, const ExportOptions& o) {
  ParamTable table;
  declare_parameters(spec.model, table);
  const Layout layout(choose_mapping(o.mapping, o.format, spec.model.family), spec.model, table);
  const OrderedJson origin = carried_json(state.carried, ForeignModel::kOriginName);
  const ElementType usual = spec.precision.compute == DType::bf16 ? ElementType::bf16 : ElementType::f32;
  std::vector<Outgoing> list;
  for (const Param& p : table) {
    const ElementType type = o.type ? *o.type : stored_type(origin, p.name).value_or(usual);
    list.push_back({p, layout[static_cast<ParamId>(list.size())], type});
  }
  return list;
}

// Writes one .safetensors file.
class ShardWriter {
 public:
  ShardWriter(const fs::path& path, const std::vector<Outgoing>& tensors, TensorReader& reader)
      : path_(path), reader_(reader) {
    SafetensorsHeader header;
    header.metadata["format"] = "pt";
    for (const Outgoing& t : tensors) header.tensors[t.as.name()] = {std::string(name_of(t.type)), t.as.shape, 0, 0};
    const std::string first = lay_out_safetensors(header);
    out_.open(path, std::ios::binary | std::ios::trunc);
    put(std::as_bytes(std::span(first)));
    std::vector<const Outgoing*> order;
    for (const Outgoing& t : tensors) order.push_back(&t);
    std::sort(order.begin(), order.end(), [&](const Outgoing* a, const Outgoing* b) {
      return header.tensors[a->as.name()].begin < header.tensors[b->as.name()].begin;
    });
    for (const Outgoing* t : order) write(*t);
    out_.close();
    if (!out_) fail();
    fsync_path(path);
  }

 private:
  [[noreturn]] void fail() const { throw DataError(fmt::format("{}: cannot be written (disk full?)", path_.string())); }
  void put(std::span<const std::byte> bytes) {
    out_.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (!out_) fail();
  }

  // Writes a few MiB of stored rows at a time; for rotary pairs whole heads.
  void write(const Outgoing& t) {
    const int64_t rows = t.as.shape[0], columns = t.as.shape.size() == 2 ? t.as.shape[1] : 1;
    int64_t step = std::max<int64_t>(1, (int64_t{2} << 20) / std::max<int64_t>(columns, 1));
    if (t.as.transform == TensorTransform::rotary_pairs) step = (step / t.as.head_dim + 1) * t.as.head_dim;
    for (int64_t r = 0; r < rows; r += step) {
      read_stored(t, r, std::min(step, rows - r), columns);
      raw_.resize(values_.size() * size_of(t.type));
      if (const size_t lost = from_floats(t.type, values_, raw_); lost > 0)
        throw DataError(fmt::format("{}: {} of its values are too large for {}; legal: --dtype bf16 or f32",
                                    t.param.name, lost, name_of(t.type)));
      put(raw_);
    }
  }

  // Reads stored rows [first, first + n) into values_.
  void read_stored(const Outgoing& t, int64_t first, int64_t n, int64_t columns) {
    values_.resize(static_cast<size_t>(n * columns));
    const auto read = [&](const Shape& start, const Shape& count, float* out) {
      reader_.read(t.param.name, kParamState, {start, count}, out, {count, count.rank() == 2 ? Shape{0, 0} : Shape{0}});
    };
    if (t.as.transform == TensorTransform::transposed) {
      box_.resize(values_.size());
      read({0, first}, {columns, n}, box_.data());
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < columns; ++j)
          values_[static_cast<size_t>(i * columns + j)] = box_[static_cast<size_t>(j * n + i)];
      return;
    }
    if (t.as.shape.size() == 2)
      read({first, 0}, {n, columns}, values_.data());
    else
      read({first}, {n}, values_.data());
    if (t.as.transform != TensorTransform::rotary_pairs) return;
    box_ = values_;
    for (int64_t i = 0; i < n; ++i)
      std::copy_n(&box_[static_cast<size_t>(i * columns)], columns,
                  &values_[static_cast<size_t>(rotary_pair_row(i, t.as.head_dim) * columns)]);
  }

  fs::path path_;
  TensorReader& reader_;
  std::ofstream out_;
  std::vector<float> values_, box_;
  std::vector<std::byte> raw_;
};

// Assigns tensors to files in the order of the model.
std::vector<std::vector<Outgoing>> cut_into_shards(const std::vector<Outgoing>& tensors, uint64_t limit) {
  std::vector<std::vector<Outgoing>> shards(1);
  uint64_t bytes = 0;
  for (const Outgoing& t : tensors) {
    if (bytes > 0 && bytes + t.bytes() > limit) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().push_back(t);
    bytes += t.bytes();
  }
  return shards;
}

void write_weights(const fs::path& folder, const std::vector<Outgoing>& tensors, const ExportOptions& o,
                   TensorReader& reader, ExportSummary& summary) {
  const auto shards = cut_into_shards(tensors, o.shard_bytes);
  OrderedJson map = OrderedJson::object();
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shards.size() == 1
                                 ? "model.safetensors"
                                 : fmt::format("model-{:05d}-of-{:05d}.safetensors", i + 1, shards.size());
    ShardWriter(folder / name, shards[i], reader);
    for (const Outgoing& t : shards[i]) {
      map[t.as.name()] = name;
      summary.bytes += t.bytes();
    }
  }
  summary.files = static_cast<int>(shards.size());
  summary.tensors = static_cast<int>(tensors.size());
  if (shards.size() == 1) return;
  const OrderedJson index = {{"metadata", {{"total_size", summary.bytes}}}, {"weight_map", map}};
  write_file_atomically(folder / "model.safetensors.index.json", index.dump(2) + "\n");
}

}  // namespace

ExportSummary export_model(const Checkpoint& checkpoint, const ExportOptions& o) {
  std::error_code error;
  if (fs::exists(o.to, error))
    throw ConfigError(fmt::format("--to {}: exists already; choose another name", o.to.string()));
  const TrainState state = checkpoint.state();
  const RunSpec spec = parse_stored_spec(state.config_yaml, (checkpoint.folder() / "config.yaml").string());
  const std::vector<Outgoing> tensors = list_tensors(spec, state, o);
  ParamTable table;
  declare_parameters(spec.model, table);
  checkpoint.require(table);

  PendingFolder folder(fs::absolute(o.to).lexically_normal());
  ExportSummary summary;
  write_weights(folder.path(), tensors, o, *checkpoint.tensors(), summary);
  summary.tokenizer = write_companions(folder.path(), spec, state, tensors.front().type);
  folder.publish();
  return summary;
}

}  // namespace fp
