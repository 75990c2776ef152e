// Every mesh loads what any other mesh has saved, bit for bit: parameters and both moments of whole models, with
// uneven, padded, replicated, tied and sharded tensors.
#include "comm/counting.h"
#include "config/load.h"
#include "dryrun/setup.h"
#include "fixture.h"
#include "ops/counting.h"
#include "sharding/arrange.h"

namespace fp::test {
namespace {

using std::filesystem::path;

// Six heads do not divide by 4, nor five layers by any number of stages; two kv heads go to 3, 4 or 6 ranks as copies.
constexpr const char* kGpt =
    "{family: gpt, layers: 5, hidden: 12, heads: 6, ffn: 22, vocab: 5201, pad_vocab_to: 128, max_position: 16}";
constexpr const char* kLlama =
    "{family: llama, layers: 5, hidden: 12, heads: 6, kv_heads: 2, ffn: 19, vocab: 131, pad_vocab_to: 8, "
    "tied_embeddings: true}";
constexpr const char* kPhi3 =
    "{family: phi3, layers: 5, hidden: 24, heads: 6, kv_heads: 2, ffn: 19, vocab: 131, pad_vocab_to: 1, "
    "tied_embeddings: false}";

struct Run {
  const char* model;
  const char* optimizer = "adamw";
};

struct Layout {
  int ranks;
  const char* parallel;  // that section of a run spec
  const char* compute = "fp32";
  const char* offload = "none";  // of the optimizer's state
};

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> list = {
      {1, "{}"},
      {1, "{}", "bf16"},  // with master weights
      {2, "{tensor: 2}"},
      {4, "{tensor: 4}"},  // heads: 2 2 1 1
      {6, "{tensor: 6, megatron_sp: true}", "bf16"},
      {3, "{data: 3, zero_stage: 1}", "bf16"},
      {4, "{data: 4, zero_stage: 2}"},
      {7, "{data: 7, zero_stage: 3}", "bf16"},
      {4, "{sequence: 2, data: 2, zero_stage: 3}"},
      {6, "{tensor: 3, data: 2, zero_stage: 1}"},
      {8, "{tensor: 4, sequence: 1, data: 2, zero_stage: 3}"},
      {2, "{pipeline: {ranks: 2}}"},
      {3, "{pipeline: {ranks: 3, schedule: zb-h1}}"},
      {8, "{pipeline: {ranks: 2}, tensor: 2, data: 2, zero_stage: 1}"},
      {2, "{pipeline: {ranks: 2, schedule: interleaved, chunks: 2}}"},
      {4, "{pipeline: {ranks: 2, schedule: zb-v}, data: 2, zero_stage: 1}"},
      {4, "{pipeline: {ranks: 2, schedule: zeropp, chunks: 2}, data: 2, zero_stage: 3}"},
      {4, "{pipeline: {ranks: 4, schedule: chimera}, zero_stage: 1}"},  // from here on each weight is on two ranks
      {4, "{pipeline: {ranks: 4, schedule: dualpipe}}"},
      {8, "{pipeline: {ranks: 2, schedule: bitpipe}, tensor: 2, data: 2, zero_stage: 2}", "bf16"},
      {2, "{tensor: 2}", "fp32", "host"},
      {3, "{data: 3, zero_stage: 2}", "bf16", "host"}};
  return list;
}

// The state of one rank of a layout, as in a run.
std::unique_ptr<State> rank_state(const Run& run, const Layout& layout, int rank) {
  RunSpec spec = parse_run_spec(
      fmt::format("model: {}\ndata: {{seq_len: 16}}\nparallel: {}\nprecision: {{compute: {}}}\n"
                  "train: {{global_batch: 168, micro_batch: 1}}\nmemory: {{offload: {{optimizer: {}}}}}\n"
                  "optimizer: {{kind: {}}}\n",
                  run.model, layout.parallel, layout.compute, layout.offload, run.optimizer),
      layout.parallel);
  const Mesh mesh = arrange(spec, layout.ranks);
  const auto world = make_counting_world(rank, layout.ranks);
  const auto ops = make_counting_ops();
  const Groups groups = make_groups(*world, mesh);
  Arena dry, dry_host(Residence::host);
  const ModelOptions options = model_options(spec, plan_pipeline(spec), groups.at.pp);
  const Model shape(spec.model, options, *ops, dry, groups, &dry_host);
  return std::make_unique<State>(shape.table(),
                                 StoreOptions{options.compute, true, options.gradients, options.zero_stage});
}

path save(const path& dir, const Run& run, const Layout& layout, int64_t step) {
  const path hidden = begin_save(dir, step);
  std::vector<RankFile> files;
  std::unique_ptr<State> state;
  for (int rank = 0; rank < layout.ranks; ++rank) {
    state = rank_state(run, layout, rank);
    state->fill(static_cast<uint64_t>(step));
    files.push_back(write_rank_file(hidden, state->store, *state->ops, rank));
  }
  return finish_save(hidden, state->table, files, some_state(step), {});
}

// The combined results of loading a checkpoint on all ranks of a layout.
class Findings {
 public:
  explicit Findings(const ParamTable& table) : seen_(table.slots().size()), wrong_(table.slots().size()) {
    for (ParamId id = 0; id < static_cast<ParamId>(table.size()); ++id)
      for (int slot = 0; slot < table.slot_count(); ++slot)
        seen_[index(slot)].emplace_back(table.has_slot(id, slot) ? static_cast<size_t>(table[id].shape.elements())
                                                                 : size_t{0});
  }
  void add(State& state, uint64_t seed) {
    for (int slot = 0; slot < state.table.slot_count(); ++slot)
      wrong_[index(slot)] += state.wrong(seed, slot, &seen_[index(slot)]);
  }
  int slots() const { return static_cast<int>(wrong_.size()); }
  int64_t wrong(int slot) const { return wrong_[index(slot)]; }
  // Returns the number of logical elements that no rank has loaded.
  int64_t missing(int slot) const {
    int64_t n = 0;
    for (const std::vector<bool>& of_param : seen_[index(slot)])
      n += std::count(of_param.begin(), of_param.end(), false);
    return n;
  }

 private:
  static size_t index(int slot) { return static_cast<size_t>(slot); }

  std::vector<std::vector<std::vector<bool>>> seen_;  // by slot and parameter
  std::vector<int64_t> wrong_;                        // by slot
};

// Saves a run in all layouts, and loads each checkpoint in every layout, or in every `step`th from `first` on.
void check_round_trips(const Run& run, size_t first = 0, size_t step = 1) {
  const MemoryFolder dir;
  std::vector<Checkpoint> saved;
  for (const Layout& writer : layouts())
    saved.push_back(Checkpoint::open(save(dir.path, run, writer, static_cast<int64_t>(saved.size()))));
  for (size_t r = first; r < layouts().size(); r += step) {
    const Layout& reader = layouts()[r];
    std::vector<Findings> findings;
    for (int rank = 0; rank < reader.ranks; ++rank) {
      const auto state = rank_state(run, reader, rank);
      findings.resize(saved.size(), Findings(state->table));
      for (size_t i = 0; i < saved.size(); ++i) {
        state->poison();
        saved[i].load(state->store, *state->ops);
        findings[i].add(*state, i);
      }
    }
    for (size_t i = 0; i < saved.size(); ++i) {
      INFO(layouts()[i].parallel << " wrote, " << reader.parallel << " read");
      for (int slot = 0; slot < findings[i].slots(); ++slot) {
        CHECK(findings[i].wrong(slot) == 0);
        CHECK(findings[i].missing(slot) == 0);
      }
    }
  }
}

TEST_CASE("a checkpoint of any mesh loads on some other meshes") {
  const std::vector<Run> runs{{kGpt}, {kLlama}, {kPhi3}, {kLlama, "muon"}};
  for (size_t i = 0; i < runs.size(); ++i) check_round_trips(runs[i], 5 * i, 4 * 5);
}
TEST_CASE("a checkpoint of any mesh loads on any other mesh: tied, padded vocabulary", "[nightly]") {
  check_round_trips({kGpt});
}
TEST_CASE("a checkpoint of any mesh loads on any other mesh: tied, shared kv heads", "[nightly]") {
  check_round_trips({kLlama});
}
TEST_CASE("a checkpoint of any mesh loads on any other mesh: untied, fused projections", "[nightly]") {
  check_round_trips({kPhi3});
}
TEST_CASE("a checkpoint of any mesh loads on any other mesh: matrices with slots of their own", "[nightly]") {
  check_round_trips({kLlama, "muon"});
}

TEST_CASE("the round-trip check detects a load without moments") {
  const MemoryFolder dir;
  const Layout &writer = layouts()[13], &reader = layouts()[9];
  const Checkpoint saved = Checkpoint::open(save(dir.path, {kPhi3}, writer, 1));
  std::vector<Findings> findings;
  int64_t held = 0;
  for (int rank = 0; rank < reader.ranks; ++rank) {
    const auto state = rank_state({kPhi3}, reader, rank);
    findings.resize(1, Findings(state->table));
    saved.load_weights(state->store, *state->ops);
    findings[0].add(*state, 1);
    held = state->table.logical_parameters();
  }
  CHECK(findings[0].wrong(kParamSlot) == 0);
  CHECK(findings[0].missing(kParamSlot) == 0);
  for (const int slot : {1, 2}) {
    CHECK(findings[0].wrong(slot) >= held);
    CHECK(findings[0].missing(slot) == held);
  }
}

}  // namespace
}  // namespace fp::test
