// Checkpoints from before index.bin was introduced: HDF5 reads them only where the user, or the run that owns them,
// allows it.
#include "checkpoint/consolidate.h"
#include "checkpoint/fragment_index.h"
#include "checkpoint/index.h"
#include "checkpoint/inspect.h"
#include "checkpoint/verify_hdf5.h"
#include "fixture.h"

namespace fp::test {
namespace {

using std::filesystem::path;

path save_older(const path& dir, int64_t step = 1) {
  const path folder = test::save_ranks(dir, step, 2, 2, 1);
  make_older(folder);
  return folder;
}

Checkpoint open_allowed(const path& folder) {
  Checkpoint checkpoint = Checkpoint::open(folder);
  checkpoint.allow_hdf5();
  return checkpoint;
}

// Rewrites index.h5 with HDF5 mappings only, which `of` returns for a tensor, and corrects its hash.
void write_without_tables(
    const path& folder,
    const std::function<std::vector<StoredFragment>(const CheckpointParam&, const std::string&)>& of) {
  const CheckpointManifest manifest = read_checkpoint_manifest(folder);
  std::vector<std::pair<std::string, std::vector<h5::Mapping>>> tensors;
  for (const CheckpointParam& p : manifest.parameters)
    for (const std::string state : {"param", "exp_avg", "exp_avg_sq"}) {
      tensors.push_back({dataset_name(p.name, state), {}});
      for (const StoredFragment& f : of(p, state))
        tensors.back().second.push_back({f.box, rank_file_name(f.rank), dataset_name(p.name, state, f.number)});
    }
  std::filesystem::remove(folder / "index.h5");
  h5::File index = h5::File::create(folder / "index.h5");
  for (size_t i = 0; i < tensors.size(); ++i)
    index.create_virtual(tensors[i].first, manifest.parameters[i / slots().size()].shape, tensors[i].second);
  index.close();
  seal(folder, "index.h5");
}

TEST_CASE("an older checkpoint is read by HDF5 only where that is allowed") {
  const MemoryFolder dir;
  const path folder = save_older(dir.path);
  Checkpoint checkpoint = Checkpoint::open(folder);
  CHECK(checkpoint.needs_hdf5());
  State state(small_table());
  try {
    checkpoint.load(state.store, *state.ops);
    FAIL("it was loaded");
  } catch (const OlderFormatError& e) {
    CHECK(e.code() == ExitCode::bad_config);
    CHECK(contains(e.what(), "did not write index.bin"));
    CHECK(contains(e.what(), "fptrain checkpoint consolidate --hdf5 " + folder.string()));
  }
  CHECK_THROWS_AS(verify_tensors(checkpoint), OlderFormatError);
  CHECK_THROWS_AS(compare(checkpoint, checkpoint), OlderFormatError);
  CHECK_THROWS_AS(consolidate(checkpoint, dir.path / "copy", "test"), OlderFormatError);
  CHECK(names_in(dir.path) == std::vector<std::string>{"step-00000001"});

  checkpoint.allow_hdf5();
  checkpoint.load(state.store, *state.ops);
  CHECK(state.wrong(1) == 0);
  CHECK_NOTHROW(verify_tensors(checkpoint));
  CHECK_NOTHROW(verify_with_hdf5(checkpoint));
}

TEST_CASE("a consolidated copy of an older checkpoint does not need HDF5") {
  const MemoryFolder dir;
  consolidate(open_allowed(save_older(dir.path)), dir.path / "copy", "test");
  const Checkpoint copy = Checkpoint::open(dir.path / "copy");
  CHECK_FALSE(copy.needs_hdf5());
  State state(small_table());
  copy.load(state.store, *state.ops);
  CHECK(state.wrong(1) == 0);
}

TEST_CASE("an older checkpoint whose index has no tables is read through its HDF5 mappings") {
  const MemoryFolder dir;
  const path folder = save_older(dir.path);
  {
    const Checkpoint checkpoint = open_allowed(folder);
    const FragmentIndex index(checkpoint);
    write_without_tables(folder,
                         [&](const CheckpointParam& p, const std::string& state) { return index.fragments(p, state); });
  }
  const Checkpoint checkpoint = open_allowed(folder);
  State state(small_table());
  checkpoint.load(state.store, *state.ops);
  CHECK(state.wrong(1) == 0);
}

TEST_CASE("an older index with a hole is refused") {
  const MemoryFolder dir;
  const path folder = test::save_ranks(dir.path, 1, 1, 1, 1);
  make_older(folder);
  write_without_tables(folder, [](const CheckpointParam& p, const std::string&) {
    Shape start = p.shape;
    for (int d = 0; d < start.rank(); ++d) start[d] = 0;
    StoredFragment f{0, 0, {start, p.shape}, 0};
    if (p.name == "model.embed_tokens.weight") f.box.count[0] = 30;
    return std::vector<StoredFragment>{f};
  });
  const Checkpoint checkpoint = open_allowed(folder);
  FragmentReader reader(checkpoint);
  const std::string message = data_error([&] { first_elements(reader, "model.embed_tokens.weight", "param", 8); });
  CHECK(contains(message, "model.embed_tokens.weight/param/0 is not a dataset of shape [30,16]"));
}

TEST_CASE("retention and finding the latest checkpoint read no tensors of an older one") {
  const MemoryFolder dir;
  for (const int64_t step : {1, 2, 3}) save_older(dir.path, step);
  const ParamTable table = small_table();
  CHECK(find_latest(dir.path, &table)->manifest().step == 3);
  apply_retention(dir.path, {1, 0}, 3);
  CHECK(names_in(dir.path) == std::vector<std::string>{"step-00000003"});
}

}  // namespace
}  // namespace fp::test
