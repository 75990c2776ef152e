// Manipulated checkpoints from untrusted sources: nothing in them leads out of their folder.
#include <hdf5.h>
#include <sys/stat.h>

#include <bit>

#include "checkpoint/consolidate.h"
#include "checkpoint/inspect.h"
#include "checkpoint/verify_hdf5.h"
#include "fixture.h"

namespace fp::test {
namespace {

using std::filesystem::path;

const std::string kNorm = "model.layers.0.input_layernorm.weight", kNormWeights = kNorm + "/param";

struct PlantedCheckpoint {
  MemoryFolder dir;
  path folder = test::save_ranks(dir.path, 1, 2, 1, 1);
  path secret = dir.path / "secret";

  PlantedCheckpoint() { write_text(secret, std::string(4096, 'S')); }

  // Moves a file of the checkpoint elsewhere and leaves a link in its place.
  void lead_away(const std::string& name) const {
    std::filesystem::rename(folder / name, dir.path / "elsewhere");
    std::filesystem::create_symlink(dir.path / "elsewhere", folder / name);
  }
  void bring_back(const std::string& name) const {
    std::filesystem::remove(folder / name);
    std::filesystem::rename(dir.path / "elsewhere", folder / name);
  }
};

TEST_CASE("a symbolic link in a checkpoint is refused even if its target has the right content") {
  const PlantedCheckpoint s;
  for (const std::string& name : names_in(s.folder)) {
    CAPTURE(name);
    s.lead_away(name);
    for (const auto verify : {Checkpoint::Verify::everything, Checkpoint::Verify::sizes})
      CHECK(contains(data_error([&] { Checkpoint::open(s.folder, verify); }), name + ": is a symbolic link"));
    s.bring_back(name);
  }
  CHECK_NOTHROW(Checkpoint::open(s.folder));
}

TEST_CASE("a file that has become a symbolic link since the checkpoint was verified is not followed") {
  const PlantedCheckpoint s;
  const Checkpoint checkpoint = Checkpoint::open(s.folder);
  State state(small_table());
  for (const std::string name : {"rank-00001.h5", "index.bin"}) {
    s.lead_away(name);
    CHECK(contains(data_error([&] { checkpoint.load(state.store, *state.ops); }), name + ": is a symbolic link"));
    s.bring_back(name);
  }
  for (const std::string name : {"config.yaml", "tokenizer.json"}) {
    s.lead_away(name);
    CHECK(contains(data_error([&] { checkpoint.state(); }), name + ": is a symbolic link"));
    s.bring_back(name);
  }
  checkpoint.load(state.store, *state.ops);
  CHECK(state.wrong(1) == 0);
}

TEST_CASE("a checkpoint folder may itself be a symbolic link") {
  const PlantedCheckpoint s;
  std::filesystem::create_directory_symlink(s.folder, s.dir.path / "link");
  State state(small_table());
  load_checkpoint(s.dir.path / "link", state.store, *state.ops);
  CHECK(state.wrong(1) == 0);
  CHECK_NOTHROW(verify_with_hdf5(Checkpoint::open(s.dir.path / "link")));
}

TEST_CASE("a named pipe in a checkpoint is refused without blocking") {
  const PlantedCheckpoint s;
  for (const std::string& name : names_in(s.folder)) {
    CAPTURE(name);
    const std::string content = read_file(s.folder / name);
    std::filesystem::remove(s.folder / name);
    REQUIRE(::mkfifo((s.folder / name).c_str(), 0600) == 0);
    CHECK(contains(data_error([&] { Checkpoint::open(s.folder); }), name + ": is not a regular file"));
    std::filesystem::remove(s.folder / name);
    write_text(s.folder / name, content);
  }
}

// ---- index.h5 and rank files as an attacker makes them --------------------------------------------------------------

// Opens an HDF5 file for writing, lets `alter` change it and corrects the checkpoint's hashes.
void alter_hdf5(const path& folder, const std::string& file, const std::function<void(hid_t)>& alter) {
  const hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
  REQUIRE(H5Pset_file_locking(fapl, false, true) >= 0);
  const hid_t id = H5Fopen((folder / file).c_str(), H5F_ACC_RDWR, fapl);
  REQUIRE(id >= 0);
  alter(id);
  REQUIRE(H5Fclose(id) >= 0);
  H5Pclose(fapl);
  seal(folder, file);
}

// Replaces the named dataset by one of shape [16], fp32, with the creation properties that `prepare` sets. The old one
// is renamed, so that its bytes stay where they are.
void replace_dataset(hid_t file, const std::string& name, const std::function<void(hid_t dcpl, hid_t space)>& prepare) {
  REQUIRE(H5Lmove(file, name.c_str(), file, "moved", H5P_DEFAULT, H5P_DEFAULT) >= 0);
  const hsize_t extent = 16;
  const hid_t space = H5Screate_simple(1, &extent, nullptr), dcpl = H5Pcreate(H5P_DATASET_CREATE);
  prepare(dcpl, space);
  const hid_t id = H5Dcreate2(file, name.c_str(), H5T_IEEE_F32LE, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
  REQUIRE(id >= 0);
  H5Dclose(id);
  H5Pclose(dcpl);
  H5Sclose(space);
}

// Returns the result of inspecting the tensor without HDF5: it must be as saved, whatever index.h5 contains.
void require_right_without_hdf5(const path& folder) {
  const Checkpoint checkpoint = Checkpoint::open(folder);
  FragmentReader reader(checkpoint);
  const std::vector<float> first = first_elements(reader, kNorm, "param", 16);
  for (size_t i = 0; i < first.size(); ++i)
    CHECK(std::bit_cast<uint32_t>(first[i]) ==
          std::bit_cast<uint32_t>(known_value(kNorm, "param", static_cast<int64_t>(i), 1)));
  CHECK_NOTHROW(verify_tensors(checkpoint));
}

std::string refusal_by_hdf5(const path& folder) {
  return data_error([&] { verify_with_hdf5(Checkpoint::open(folder)); });
}

TEST_CASE("external storage in an index reveals nothing of the file that it names") {
  const PlantedCheckpoint s;
  alter_hdf5(s.folder, "index.h5", [&](hid_t file) {
    replace_dataset(file, kNormWeights, [&](hid_t dcpl, hid_t) { H5Pset_external(dcpl, s.secret.c_str(), 0, 64); });
  });
  require_right_without_hdf5(s.folder);
  CHECK(contains(refusal_by_hdf5(s.folder), kNormWeights + ": is chunked, compact or in other files"));
  // As an older checkpoint, by its mappings: the tables are gone.
  make_older(s.folder);
  alter_hdf5(s.folder, "index.h5",
             [&](hid_t file) { REQUIRE(H5Adelete_by_name(file, kNorm.c_str(), "param", H5P_DEFAULT) >= 0); });
  Checkpoint older = Checkpoint::open(s.folder);
  older.allow_hdf5();
  FragmentReader reader(older);
  CHECK(contains(data_error([&] { first_elements(reader, kNorm, "param", 16); }), "in other files"));
}

TEST_CASE("virtual datasets may only map the right datasets of the checkpoint's rank files") {
  const std::string own = kNormWeights + "/0";
  for (const auto& [source, dataset] :
       std::vector<std::pair<std::string, std::string>>{{"/etc/passwd", own},
                                                        {"../secret", own},
                                                        {"./rank-00000.h5", own},
                                                        {"rank-0.h5", own},
                                                        {"rank-00000.h5x", own},
                                                        {".", own},
                                                        {"rank-00000.h5", kNorm + "/exp_avg/0"},
                                                        {"rank-00000.h5", "/" + own}}) {
    CAPTURE(source, dataset);
    const PlantedCheckpoint s;
    alter_hdf5(s.folder, "index.h5", [&, from = source, name = dataset](hid_t file) {
      replace_dataset(file, kNormWeights, [&](hid_t dcpl, hid_t space) {
        REQUIRE(H5Pset_virtual(dcpl, space, from.c_str(), name.c_str(), space) >= 0);
      });
    });
    require_right_without_hdf5(s.folder);
    CHECK(contains(refusal_by_hdf5(s.folder), "index.h5: " + kNormWeights + ": leads to '"));
  }
}

TEST_CASE("HDF5 links other than hard links are refused") {
  for (const std::string file : {"index.h5", "rank-00000.h5"})
    for (const bool external : {false, true}) {
      CAPTURE(file, external);
      const PlantedCheckpoint s;
      alter_hdf5(s.folder, file, [&](hid_t id) {
        REQUIRE(H5Lmove(id, kNorm.c_str(), id, "moved", H5P_DEFAULT, H5P_DEFAULT) >= 0);
        if (external)
          REQUIRE(H5Lcreate_external("other.h5", "/x", id, kNorm.c_str(), H5P_DEFAULT, H5P_DEFAULT) >= 0);
        else
          REQUIRE(H5Lcreate_soft("/moved", id, kNorm.c_str(), H5P_DEFAULT, H5P_DEFAULT) >= 0);
      });
      require_right_without_hdf5(s.folder);
      CHECK(contains(refusal_by_hdf5(s.folder), kNorm + ": is a link that may lead anywhere"));
    }
}

TEST_CASE("a rank file with moved datasets fails HDF5 verification and is read correctly without HDF5") {
  const PlantedCheckpoint s;
  alter_hdf5(s.folder, "rank-00000.h5", [&](hid_t file) {
    replace_dataset(file, kNormWeights + "/0",
                    [&](hid_t dcpl, hid_t) { H5Pset_external(dcpl, s.secret.c_str(), 0, 64); });
  });
  require_right_without_hdf5(s.folder);
  CHECK(contains(refusal_by_hdf5(s.folder), "in other files"));
}

TEST_CASE("an index that maps other elements for HDF5 is detected") {
  const PlantedCheckpoint s;
  alter_hdf5(s.folder, "index.h5", [&](hid_t file) {
    replace_dataset(file, kNormWeights, [&](hid_t dcpl, hid_t space) {
      REQUIRE(H5Pset_virtual(dcpl, space, "rank-00001.h5", (kNormWeights + "/0").c_str(), space) >= 0);
    });
  });
  require_right_without_hdf5(s.folder);
  CHECK(contains(refusal_by_hdf5(s.folder), kNormWeights + " has other parts than in index.bin"));
}

}  // namespace
}  // namespace fp::test
