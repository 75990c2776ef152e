// What was written is compared with what was in memory before anything relies on it.
#include "checkpoint/read_back.h"
#include "fixture.h"

namespace fp::test {
namespace {

using std::filesystem::path;

// Must go out of scope before what the hook uses.
struct Watch {
  explicit Watch(storage::Hook h) { storage::set_hook(std::move(h)); }
  ~Watch() { storage::set_hook({}); }
};

void flip_bit(const path& file, std::streamoff at) {
  std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
  f.seekg(at);
  const char c = static_cast<char>(f.get() ^ 0x10);
  f.seekp(at);
  f.put(c);
}

// Returns an offset in the file that is inside a tensor.
std::streamoff inside_a_tensor(const path& checkpoint) {
  const h5::File file = h5::File::open(checkpoint / "rank-00000.h5");
  return static_cast<std::streamoff>(file.dataset("model.embed_tokens.weight/param/0").file_offset()) + 70;
}

TEST_CASE("a tensor altered between memory and hash fails the save, which leaves nothing behind") {
  const MemoryFolder dir;
  State state(small_table());
  const std::streamoff at = inside_a_tensor(save(dir.path, state, 1, 1));
  std::string error;
  {
    const Watch watch([&](storage::Step step, const path& file) {
      if (step == storage::Step::close && file.filename() == "rank-00000.h5") flip_bit(file, at);
    });
    error = data_error([&] { save(dir.path, state, 2, 2); });
  }
  CHECK(contains(error, "checkpoint of step 2 not saved (earlier ones are intact)"));
  CHECK(contains(error, "the file differs from the data in memory: param of model.embed_tokens.weight"));
  CHECK(names_in(dir.path) == std::vector<std::string>{"step-00000001"});
  save(dir.path, state, 3, 3);
  CHECK(names_in(dir.path) == std::vector<std::string>{"step-00000001", "step-00000003"});
}

TEST_CASE("small files and index.bin are read back and compared too") {
  const MemoryFolder dir;
  State state(small_table());
  save(dir.path, state, 1, 1);
  for (const char* name : {"index.bin", "config.yaml", "tokenizer.json", "manifest.json"}) {
    CAPTURE(name);
    const Watch watch([&](storage::Step step, const path& file) {
      if (step == storage::Step::sync && file.filename() == name) flip_bit(file, 3);
    });
    CHECK(contains(data_error([&] { save(dir.path, state, 2, 2); }),
                   std::string(name) + ": the file differs from the data"));
  }
  CHECK(names_in(dir.path) == std::vector<std::string>{"step-00000001"});
}

TEST_CASE("a fingerprint is the sum over runs of elements, however they are divided") {
  const Shape logical{7, 5, 3};
  for (const Box& box : {Box{{2, 0, 0}, {3, 5, 3}}, Box{{1, 2, 0}, {4, 2, 3}}}) {
    std::vector<float> values(static_cast<size_t>(box.count.elements()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * 0.37f - 2;
    const uint64_t whole = fingerprint(logical, box, values.data(), {box.count, {0, 0, 0}});
    for (size_t piece = 1; piece <= values.size(); ++piece) {
      uint64_t sum = 0;
      for (size_t at = 0; at < values.size(); at += piece)
        sum += fingerprint(logical, box, static_cast<int64_t>(at),
                           std::span(values).subspan(at, std::min(piece, values.size() - at)));
      CHECK(sum == whole);
    }
  }
}

TEST_CASE("the newest valid checkpoint is never deleted for a newer invalid one") {
  const MemoryFolder dir;
  State state(small_table());
  for (const int64_t step : {1, 2, 3}) save(dir.path, state, step, static_cast<uint64_t>(step));
  flip_bit(dir.path / "step-00000003" / "rank-00000.h5", inside_a_tensor(dir.path / "step-00000003"));
  apply_retention(dir.path, {1, 0}, 3);
  CHECK(names_in(dir.path) == std::vector<std::string>{"step-00000002", "step-00000003"});
  // A checkpoint that was compared when it was saved is not read again.
  apply_retention(dir.path, {1, 0}, 3, {3});
  CHECK(names_in(dir.path) == std::vector<std::string>{"step-00000003"});
}

}  // namespace
}  // namespace fp::test
