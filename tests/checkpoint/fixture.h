// A small model with every way of cutting a tensor, whose state is a known function of name, kind and logical index.
#pragma once

#include <unistd.h>

#include <bit>
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/filesystem.h"
#include "base/log.h"
#include "base/philox.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"
#include "checkpoint/storage.h"
#include "ops/backends.h"

namespace fp::test {

struct TempDir {
  std::filesystem::path path;

  // In memory where there is such a folder: the tests sync a lot.
  TempDir() {
    std::string pattern =
        ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : std::filesystem::temp_directory_path().string();
    pattern += "/fp_checkpoint_XXXXXX";
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path = pattern;
  }
  ~TempDir() { std::filesystem::remove_all(path); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
};

inline ParamTable small_table(int tp = 1, int index = 0, int layers = 2) {
  constexpr int64_t hidden = 16, heads = 8, kv = 2, d = 4, ffn = 24, vocab = 37, padded = 48;
  const auto rows = [](int64_t extent, int64_t units) { return Partition::cut(0, {{extent, units, 0}}); };
  const Partition qkv = Partition::cut(0, {{heads * d, heads, 0}, {kv * d, kv, 0, 0, true}, {kv * d, kv, 0, 0, true}});
  ParamTable t(tp, index);
  t.add("model.embed_tokens.weight", {vocab, hidden}, Partition::cut(0, {{vocab, padded, padded}}), {});
  for (int layer = 0; layer < layers; ++layer) {
    const std::string p = fmt::format("model.layers.{}.", layer);
    t.add(p + "input_layernorm.weight", {hidden}, Partition::replicated(), {InitRule::Kind::ones}, layer);
    t.add(p + "self_attn.qkv_proj.weight", {(heads + 2 * kv) * d, hidden}, qkv, {}, layer);
    t.add(p + "self_attn.qkv_proj.bias", {(heads + 2 * kv) * d}, qkv, {InitRule::Kind::zeros}, layer);
    t.add(p + "self_attn.o_proj.weight", {hidden, heads * d}, Partition::cut(1, {{heads * d, heads, 0}}), {}, layer);
    t.add(p + "mlp.gate_proj.weight", {ffn, hidden}, rows(ffn, ffn), {}, layer);
    t.add(p + "mlp.up_proj.weight", {ffn, hidden}, rows(ffn, ffn), {}, layer, true);
    t.add(p + "mlp.down_proj.weight", {hidden, ffn}, Partition::cut(1, {{ffn, ffn, 0}}), {}, layer);
  }
  return t;
}

// Any finite float, by chance also a denormal or -0.
inline float known_value(const std::string& name, StateKind kind, int64_t index, uint64_t seed) {
  const uint64_t h = Philox::mix(Philox::name_id(name) + seed * 7919 + static_cast<uint64_t>(kind) * 104729 +
                                 static_cast<uint64_t>(index) * 0x10001);
  const auto bits = static_cast<uint32_t>(h);
  return std::bit_cast<float>((bits & 0x7f800000u) == 0x7f800000u ? bits ^ 0x40000000u : bits);
}

// A rank's state with memory of its own.
class State {
 public:
  explicit State(ParamTable t, DType compute = DType::f32, bool training = true)
      : table(std::move(t)),
        arena(host_memory(bytes_needed(table, compute, training), false), bytes_needed(table, compute, training)),
        store(table, {compute, training}, arena) {
    std::memset(store.weights().data, 0x5a, store.weights().bytes());
    for (const Tensor& flat : {store.master(), store.moment1(), store.moment2(), store.grads()})
      if (flat) std::memset(flat.data, 0x5a, flat.bytes());
  }

  // Every element that this rank holds becomes known_value(seed); padding 0.
  void fill(uint64_t seed) {
    visit([&](const Param& p, StateKind kind, float* local, const std::vector<int64_t>& logical) {
      for (size_t i = 0; i < logical.size(); ++i)
        local[i] = logical[i] < 0 ? 0.0f : known_value(p.name, kind, logical[i], seed);
    });
    store.refresh_weights(*ops);
  }

  // Number of local elements, padding included, that are not what fill(seed) makes them.
  int64_t wrong(uint64_t seed) {
    int64_t n = 0;
    visit([&](const Param& p, StateKind kind, float* local, const std::vector<int64_t>& logical) {
      for (size_t i = 0; i < logical.size(); ++i) {
        const float expected = logical[i] < 0 ? 0.0f : known_value(p.name, kind, logical[i], seed);
        n += std::bit_cast<uint32_t>(local[i]) != std::bit_cast<uint32_t>(expected);
      }
    });
    return n;
  }

  // The logical index of each local element of a parameter, -1 for padding: written out plainly, as an oracle.
  std::vector<int64_t> logical_indices(ParamId id) const {
    const Param& p = table[id];
    const int64_t width = p.shape.rank() == 1 ? 1 : p.shape[1];
    const int64_t local_width = p.shape.rank() == 1 ? 1 : p.local[1];
    std::vector<int64_t> indices(static_cast<size_t>(p.local_elements()), -1);
    for (const Slab& s : table.slabs_of(id)) {
      const int64_t row0 = p.partition.dim == 0 ? s.local_start : 0, col0 = p.partition.dim == 1 ? s.local_start : 0;
      const int64_t columns = p.shape.rank() == 1 ? 1 : s.count[1], first_column = p.shape.rank() == 1 ? 0 : s.start[1];
      for (int64_t r = 0; r < s.count[0]; ++r)
        for (int64_t c = 0; c < columns; ++c)
          indices[static_cast<size_t>((row0 + r) * local_width + col0 + c)] =
              (s.start[0] + r) * width + first_column + c;
    }
    return indices;
  }

  ParamTable table;
  Arena arena;
  ParamStore store;
  std::unique_ptr<Ops> ops = make_ref_ops();

 private:
  static size_t bytes_needed(const ParamTable& table, DType compute, bool training) {
    Arena dry;
    const ParamStore store(table, {compute, training}, dry);
    return dry.peak();
  }

  template <class Visit>
  void visit(const Visit& f) {
    for (ParamId id = 0; id < static_cast<ParamId>(table.size()); ++id)
      for (const StateKind kind : kStateKinds)
        if (store.has(kind))
          f(table[id], kind, store.state(kind, {id, 0, table[id].local_elements()}).ptr<float>(), logical_indices(id));
  }
};

inline TrainState some_state(int64_t step) {
  TrainState s;
  s.step = step;
  s.consumed_samples = static_cast<uint64_t>(step) * 8;
  s.last_loss = 1.0 / 3.0 + static_cast<double>(step);
  s.extra = {{"skipped_steps", {3, 5}}, {"note", "gr\u00fc\u00dfe"}};
  s.config_yaml = "run:\n  name: test\n";
  s.tokenizer_json = "{\"model\": {}}";
  return s;
}

// Saves a state filled with `seed` as `step`.
inline std::filesystem::path save(const std::filesystem::path& dir, State& state, int64_t step, uint64_t seed) {
  state.fill(seed);
  return save_checkpoint(dir, state.store, *state.ops, some_state(step), {});
}

// Runs f, which must throw a DataError, and returns its message.
template <class F>
std::string data_error(const F& f) {
  try {
    f();
  } catch (const DataError& e) {
    return e.what();
  }
  FAIL("no DataError was thrown");
  return {};
}

// What the log says while f runs.
template <class F>
std::string logged(const std::filesystem::path& scratch, const F& f) {
  std::filesystem::remove(scratch);
  log::tee_to(scratch);
  f();
  log::tee_to({});
  return std::filesystem::exists(scratch) ? read_file(scratch) : "";
}

inline void put_file(const std::filesystem::path& path, const std::string& content) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << content;
  REQUIRE(out.flush());
}

// Names in a folder, hidden ones included, sorted.
inline std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : storage::entries_of(folder)) names.push_back(entry.filename().string());
  return names;
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace fp::test
