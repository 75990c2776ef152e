// A small model with every kind of partition, whose state is a known function of names and logical index.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/philox.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"
#include "checkpoint/hdf5.h"
#include "io/filesystem.h"
#include "io/log_file.h"
#include "io/readable_file.h"
#include "io/storage.h"
#include "ops/backends.h"
#include "support/temporary_folder.h"

namespace fp::test {

constexpr int64_t kAll = std::numeric_limits<int64_t>::max();  // steps

// The slots of all states in these tests.
inline const std::vector<StateSlot>& slots() {
  static const std::vector<StateSlot> all = state_slots(OptimizerKind::adamw);
  return all;
}

inline ParamTable small_table(int tp = 1, int index = 0, int layers = 2, int shards = 1, int shard = 0) {
  constexpr int64_t hidden = 16, heads = 8, kv = 2, d = 4, ffn = 24, vocab = 37, padded = 48;
  const auto rows = [](int64_t extent, int64_t units) { return Partition::cut(0, {{extent, units, 0}}); };
  const Partition qkv = Partition::cut(0, {{heads * d, heads, 0}, {kv * d, kv, 0, 0, true}, {kv * d, kv, 0, 0, true}});
  ParamTable t(tp, index, shards, shard);
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
  t.set_slots(slots());
  return t;
}

constexpr const char* kNarrowState = "average";  // a state that is kept in bf16

// Expected elements of a tensor: arbitrary finite floats, including denormals and -0. Those of states in bf16 are bf16
// numbers.
class KnownValues {
 public:
  KnownValues(const std::string& name, const std::string& state, uint64_t seed)
      : key_(Philox::name_id(name) + seed * 7919 + number_of(state) * 104729),
        mask_(state == kNarrowState || state.starts_with(kErrorState) ? 0xffff0000u : 0xffffffffu) {}
  float operator[](int64_t index) const {
    const auto bits = static_cast<uint32_t>(Philox::mix(key_ + static_cast<uint64_t>(index) * 0x10001)) & mask_;
    return std::bit_cast<float>((bits & 0x7f800000u) == 0x7f800000u ? bits ^ 0x40000000u : bits);
  }

 private:
  static uint64_t number_of(const std::string& state) {
    const auto found = std::ranges::find(slots(), state, &StateSlot::name);
    return found == slots().end() ? Philox::name_id(state) : static_cast<uint64_t>(found - slots().begin());
  }
  uint64_t key_;
  uint32_t mask_;
};

inline float known_value(const std::string& name, const std::string& state, int64_t index, uint64_t seed) {
  return KnownValues(name, state, seed)[index];
}

// A rank's state in its own memory: all of it or, under ZeRO, its shards.
class State {
 public:
  explicit State(ParamTable t, DType compute = DType::f32, bool training = true)
      : State(std::move(t), StoreOptions{compute, training}) {}
  State(ParamTable t, const StoreOptions& options)
      : table(std::move(t)),
        arena(host_memory(bytes_needed(table, options), false), bytes_needed(table, options)),
        host_arena(host_memory(bytes_needed(table, options), false), bytes_needed(table, options), Residence::host),
        store(table, options, arena, &host_arena) {
    for (ParamId id = 0; id < static_cast<ParamId>(table.size()); ++id)
      indices_.push_back(table[id].unit < 0 ? std::vector<int64_t>() : logical_indices(id));
    poison();
  }

  // Sets every byte to a value that no load leaves behind.
  void poison() {
    std::vector<Tensor> all = {store.weights(), store.master(), store.grads()};
    for (int slot = kParamSlot + 1; slot < table.slot_count(); ++slot) all.push_back(store.slot(slot));
    for (const Tensor& flat : all)
      if (flat) std::memset(flat.data, 0x5a, flat.bytes());
  }

  // Sets every element that this rank holds to known_value(seed), and padding to 0.
  void fill(uint64_t seed) {
    visit([&](ParamId id, int slot, int64_t first, std::span<float> local) {
      const KnownValues values(table[id].name, table.slot_name(slot), seed);
      for (size_t i = 0; i < local.size(); ++i) {
        const int64_t index = indices_[static_cast<size_t>(id)][static_cast<size_t>(first) + i];
        local[i] = index < 0 ? 0.0f : values[index];
      }
    });
    store.refresh_weights(*ops);
  }

  // Returns the number of elements of a slot on this rank, including padding, that differ from fill(seed). The correct
  // ones are marked in `seen`, if given: for each parameter, by logical index.
  int64_t wrong(uint64_t seed, int which, std::vector<std::vector<bool>>* seen = nullptr) {
    int64_t n = 0;
    visit([&](ParamId id, int slot, int64_t first, std::span<float> local) {
      if (slot != which) return;
      const KnownValues values(table[id].name, table.slot_name(slot), seed);
      for (size_t i = 0; i < local.size(); ++i) {
        const int64_t index = indices_[static_cast<size_t>(id)][static_cast<size_t>(first) + i];
        const float expected = index < 0 ? 0.0f : values[index];
        if (std::bit_cast<uint32_t>(local[i]) != std::bit_cast<uint32_t>(expected))
          ++n;
        else if (seen != nullptr && index >= 0)
          (*seen)[static_cast<size_t>(id)][static_cast<size_t>(index)] = true;
      }
    });
    return n;
  }
  int64_t wrong(uint64_t seed) {
    int64_t n = 0;
    for (int slot = 0; slot < table.slot_count(); ++slot) n += wrong(seed, slot);
    return n;
  }

  // Returns the logical index of each local element of a parameter, -1 for padding. A plain implementation, as oracle.
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
  Arena arena, host_arena;
  ParamStore store;
  std::unique_ptr<Ops> ops = make_ref_ops();

 private:
  static size_t bytes_needed(const ParamTable& table, const StoreOptions& options) {
    Arena dry, host(Residence::host);
    const ParamStore store(table, options, dry, &host);
    return dry.peak() + host.peak() + static_cast<size_t>(options.subgroup_elements) * sizeof(float);
  }

  // Calls f(parameter, slot, first local element, elements) for all state of this rank.
  template <class Visit>
  void visit(const Visit& f) {
    for (int slot = 0; slot < table.slot_count(); ++slot)
      if (store.has(slot))
        for (const ParamUnit& u : table.units())
          for (const ParamPart& part : store.sharded(slot) ? table.parts_of_slot(u, slot) : table.parts(u, true)) {
            if (!table.has_slot(part.id, slot)) continue;
            const Tensor kept = store.state(slot, part);
            if (kept.dtype == DType::f32) {
              f(part.id, slot, part.first, std::span(kept.ptr<float>(), static_cast<size_t>(part.count)));
            } else {
              std::vector<float> wide(kept.ptr<bf16>(), kept.ptr<bf16>() + part.count);
              f(part.id, slot, part.first, std::span(wide));
              std::ranges::transform(wide, kept.ptr<bf16>(), [](float x) { return bf16(x); });
            }
          }
  }

  std::vector<std::vector<int64_t>> indices_;  // logical indices of each parameter on this rank
};

// Returns the names of the states that a parameter has in a checkpoint.
inline std::vector<std::string> states_of(const Checkpoint& c, const std::string& param) {
  std::vector<std::string> names;
  for (const StoredState& s : c.manifest().parameter(param)->states) names.push_back(s.name);
  return names;
}

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

// Returns the number of fragments in a group of a rank file: "0", "1", ...
inline size_t count_fragments(const h5::File& file, const std::string& group) {
  size_t n = 0;
  while (file.has(group + "/" + std::to_string(n))) ++n;
  return n;
}

// Opens and loads a checkpoint, and returns its state().
inline TrainState load_checkpoint(const std::filesystem::path& folder, ParamStore& store, Ops& ops) {
  const Checkpoint checkpoint = Checkpoint::open(folder);
  checkpoint.load(store, ops);
  return checkpoint.state();
}

// Saves a state filled with `seed` as `step`.
inline std::filesystem::path save(const std::filesystem::path& dir, State& state, int64_t step, uint64_t seed) {
  state.fill(seed);
  return save_checkpoint(dir, state.store, *state.ops, some_state(step), {});
}

// Saves the small model filled with `seed` from tensor-parallel ranks, each sharded over data-parallel ranks as by
// ZeRO.
inline std::filesystem::path save_ranks(const std::filesystem::path& dir, int64_t step, int tp, int shards,
                                        uint64_t seed, const std::vector<StateSlot>& which = slots()) {
  const std::filesystem::path hidden = begin_save(dir, step);
  std::vector<RankFile> files;
  for (int rank = 0; rank < tp * shards; ++rank) {
    ParamTable table = small_table(tp, rank % tp, 2, shards, rank / tp);
    table.set_slots(which);
    State state(std::move(table), StoreOptions{DType::f32, true, DType::f32, 1});
    state.fill(seed);
    files.push_back(write_rank_file(hidden, state.store, *state.ops, rank));
  }
  ParamTable whole = small_table();
  whole.set_slots(which);
  return finish_save(hidden, whole, files, some_state(step), {"test", Mesh(1, shards, 1, tp, tp * shards), 0});
}

// Makes reads of one file fail, as on a faulty disk, until it is destroyed.
class FailingReads {
 public:
  FailingReads() {
    set_read_call([this](int descriptor, void* to, size_t bytes, off_t at) {
      struct stat info {};
      if (::fstat(descriptor, &info) != 0 || info.st_ino != inode_) return ::pread(descriptor, to, bytes, at);
      errno = EIO;
      return ssize_t{-1};
    });
  }
  ~FailingReads() { set_read_call({}); }
  FailingReads(const FailingReads&) = delete;
  FailingReads& operator=(const FailingReads&) = delete;

  void break_file(const std::filesystem::path& file) {
    struct stat info {};
    FP_CHECK(::stat(file.c_str(), &info) == 0, "{}: is missing", file.string());
    inode_ = info.st_ino;
  }
  void mend() { inode_ = 0; }

 private:
  std::atomic<uint64_t> inode_ = 0;
};

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

// Returns what is logged while f runs.
template <class F>
std::string logged(const std::filesystem::path& scratch, const F& f) {
  std::filesystem::remove(scratch);
  log_to_file(scratch);
  f();
  log::tee_to(FileDescriptor());
  return std::filesystem::exists(scratch) ? read_file(scratch) : "";
}

// Returns a manifest's altered text with a correct hash.
inline std::string resealed(const std::string& text) {
  const std::string before = text.substr(0, text.rfind("  \"xxh3\""));
  return before + "  \"xxh3\": \"" + hash_bytes(before.data(), before.size()) + "\"\n}\n";
}

// Replaces a manifest, with a correct hash.
inline void reseal(const std::filesystem::path& folder, const nlohmann::json& manifest) {
  nlohmann::json without_hash = manifest;
  without_hash.erase("xxh3");
  std::string text = without_hash.dump(2);
  text.replace(text.size() - 2, 2, ",\n  \"xxh3\": \"\"\n}\n");
  write_text(folder / "manifest.json", resealed(text));
}

inline nlohmann::json manifest_of(const std::filesystem::path& folder) {
  return nlohmann::json::parse(read_file(folder / "manifest.json"));
}

// Rewrites the manifest as version 1 had it.
inline void make_version_1(const std::filesystem::path& folder) {
  nlohmann::json m = manifest_of(folder);
  m["version"] = 1;
  for (nlohmann::json& p : m["parameters"]) {
    for (const nlohmann::json& s : p["states"]) p["fingerprints"][s["name"].get<std::string>()] = s["fingerprint"];
    p.erase("states");
  }
  reseal(folder, m);
}

// Turns a checkpoint into an intact one of format version 7.
inline void make_newer(const std::filesystem::path& checkpoint) {
  std::string text = read_file(checkpoint / "manifest.json");
  const size_t at = text.find("\"version\": 2");
  REQUIRE(at != std::string::npos);
  text[at + 11] = '7';
  write_text(checkpoint / "manifest.json", resealed(text));
}

// Corrects the size and hash of a file in the manifest, as the author of a manipulated checkpoint can.
inline void seal(const std::filesystem::path& checkpoint, const std::string& file) {
  CheckpointManifest m = read_checkpoint_manifest(checkpoint);
  for (CheckpointFile& f : m.files)
    if (f.name == file) f = {file, std::filesystem::file_size(checkpoint / file), hash_file(checkpoint / file)};
  write_text(checkpoint / "manifest.json", serialize(m));
}

// Alters a tensor in rank 0's file and corrects all hashes, as if it had been saved this way.
inline void alter_sealed(const std::filesystem::path& checkpoint) {
  const std::filesystem::path file = checkpoint / "rank-00000.h5";
  std::string content = read_file(file);
  content[content.size() / 2] = static_cast<char>(content[content.size() / 2] ^ 0x10);
  write_text(file, content);
  seal(checkpoint, "rank-00000.h5");
}

// Turns a checkpoint into one from before index.bin was introduced.
inline void make_older(const std::filesystem::path& checkpoint) {
  CheckpointManifest m = read_checkpoint_manifest(checkpoint);
  REQUIRE(std::erase_if(m.files, [](const CheckpointFile& f) { return f.name == "index.bin"; }) == 1);
  write_text(checkpoint / "manifest.json", serialize(m));
  std::filesystem::remove(checkpoint / "index.bin");
}

// Returns the names in a folder, including hidden ones, sorted.
inline std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : storage::entries_of(folder)) names.push_back(entry.filename().string());
  return names;
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace fp::test
