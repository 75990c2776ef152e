// Any change of a byte of a checkpoint is detected before anything is loaded.
#include "fixture.h"

namespace fp::test {
namespace {

using std::filesystem::path;

struct Saved {
  MemoryFolder dir;
  State state{small_table()};
  path checkpoint = save(dir.path, state, 5, 1);
};

// Returns whether a folder is refused as bad data, with a message that names `file`.
bool refused(const path& checkpoint, const std::string& file) {
  try {
    Checkpoint::open(checkpoint);
  } catch (const DataError& e) {
    return contains(e.what(), file);
  }
  return false;
}

// Applies `alter` at every n-th position of a file and returns the number of changes that go undetected.
template <class Alter>
int unnoticed(const path& file, size_t every, const Alter& alter) {
  const std::string content = read_file(file);
  int n = 0;
  for (size_t i = 0; i < content.size(); i += every) {
    std::string altered = content;
    alter(altered, i);
    write_text(file, altered);
    n += !refused(file.parent_path(), file.filename().string());
  }
  write_text(file, content);
  return n;
}

const auto flip = [](std::string& s, size_t i) { s[i] = static_cast<char>(s[i] ^ (1 << (i % 8))); };
const auto cut = [](std::string& s, size_t i) { s.resize(i); };

// Alters each file at every n-th position: of HDF5 files, and of the others, which are short. Odd numbers try all bits.
template <class Alter>
void check_noticed(size_t every_h5, size_t every_other, const Alter& alter) {
  const Saved saved;
  for (const std::string& name : names_in(saved.checkpoint)) {
    INFO(name);
    CHECK(unnoticed(saved.checkpoint / name, name.ends_with(".h5") ? every_h5 : every_other, alter) == 0);
  }
  CHECK_NOTHROW(Checkpoint::open(saved.checkpoint));
}

TEST_CASE("altered bytes are detected, in every file") { check_noticed(611, 13, flip); }
TEST_CASE("truncations are detected, in every file") { check_noticed(4999, 97, cut); }
TEST_CASE("altered bytes at most places are detected, in every file", "[slow]") { check_noticed(61, 1, flip); }
TEST_CASE("truncations at most places are detected, in every file", "[slow]") { check_noticed(499, 3, cut); }

TEST_CASE("a file that is longer, missing or replaced is detected and named") {
  const Saved saved;
  for (const std::string& name : names_in(saved.checkpoint)) {
    INFO(name);
    const path file = saved.checkpoint / name;
    const std::string content = read_file(file);
    write_text(file, content + '\0');
    CHECK(refused(saved.checkpoint, name));
    std::filesystem::remove(file);
    CHECK(refused(saved.checkpoint, name));
    std::filesystem::create_directory(file);
    CHECK(refused(saved.checkpoint, name));
    std::filesystem::remove(file);
    write_text(file, content);
  }
  CHECK_NOTHROW(Checkpoint::open(saved.checkpoint));
}

TEST_CASE("all damaged files are named at once") {
  const Saved saved;
  std::filesystem::remove(saved.checkpoint / "index.h5");
  std::filesystem::resize_file(saved.checkpoint / "rank-00000.h5", 1000);
  write_text(saved.checkpoint / "config.yaml", "run:\n  name: tast\n");
  const std::string message = data_error([&] { Checkpoint::open(saved.checkpoint); });
  CHECK(contains(message, "index.h5: is missing"));
  CHECK(contains(message, "rank-00000.h5: has 1000 bytes, should have"));
  CHECK(contains(message, "config.yaml: content differs"));
}

TEST_CASE("a folder that is no checkpoint, or of another version, is reported as such") {
  const MemoryFolder dir;
  const auto reason = [&](const std::string& manifest) {
    write_text(dir.path / "manifest.json", manifest);
    return data_error([&] { Checkpoint::open(dir.path); });
  };
  CHECK(contains(data_error([&] { Checkpoint::open(dir.path); }), "it has no manifest.json"));
  CHECK(contains(reason(""), "not the manifest of an fptrain checkpoint"));
  CHECK(contains(reason("{\"format\": \"other\"}\n"), "not the manifest of an fptrain checkpoint"));

  // Another version, intact: its hash is right.
  CheckpointManifest m;
  m.extra = nlohmann::json::object();
  m.created_by = "fptrain 9.1";
  const std::string text = serialize(m);
  const size_t at = text.find("\"version\": 2") + 11;
  const auto of_version = [&](char digit) { return std::string(text).replace(at, 1, 1, digit); };
  write_text(dir.path / "manifest.json", resealed(of_version('7')));
  try {
    Checkpoint::open(dir.path);
    FAIL("it was opened");
  } catch (const NewerFormatError& e) {
    CHECK(e.code() == ExitCode::bad_config);
    CHECK(contains(e.what(),
                   "is of format version 7, this program reads up to version 3: use the program that saved it, "
                   "fptrain 9.1"));
  }
  CHECK(contains(reason(resealed(of_version('0'))), "is of version 0"));
  CHECK(contains(reason(of_version('7')), "does not match its own hash"));
}

TEST_CASE("a manifest cannot name files outside its folder") {
  const MemoryFolder dir;
  for (const std::string name : {"../secret", "/etc/passwd", "..", ""}) {
    CheckpointManifest m;
    m.extra = nlohmann::json::object();
    m.files.push_back({name, 1, "00"});
    write_text(dir.path / "manifest.json", serialize(m));
    CHECK(contains(data_error([&] { Checkpoint::open(dir.path); }), "is not the name of a file"));
  }
}

TEST_CASE("changed tensors are named even if all files are intact") {
  const Saved saved;
  CheckpointManifest m = read_checkpoint_manifest(saved.checkpoint);
  m.parameters[2].states[1].fingerprint ^= 1;
  write_text(saved.checkpoint / "manifest.json", serialize(m));
  State loaded(small_table());
  const std::string message = data_error([&] { load_checkpoint(saved.checkpoint, loaded.store, *loaded.ops); });
  CHECK(contains(message, "exp_avg of model.layers.0.self_attn.qkv_proj.weight"));
}

}  // namespace
}  // namespace fp::test
