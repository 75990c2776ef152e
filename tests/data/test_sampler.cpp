// Samplers are pure functions of the global sample index and use every token as specified.
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/parallel.h"
#include "data/formats/prepared_dataset.h"
#include "data/sampling/sampler.h"
#include "data/support.h"

using namespace fp;
using namespace fp::test;
using Catch::Matchers::Contains;

namespace {

DataSection section(const TemporaryFolder& dir, int64_t seq_len, std::vector<DatasetSpec> train = {{"a", 1.0}}) {
  DataSection spec;
  for (DatasetSpec& d : train) spec.train.push_back({(dir / d.path).string(), d.weight});
  spec.seq_len = seq_len;
  return spec;
}

bool operator_equal(const Batch& a, const Batch& b) {
  return a.tokens == b.tokens && a.targets == b.targets && a.positions == b.positions && a.doc_start == b.doc_start &&
         a.sample_ids == b.sample_ids && a.target_bytes == b.target_bytes;
}

Batch batch_of(const Sampler& sampler, uint64_t first, int64_t n) {
  Batch batch;
  sampler.fill(first, n, batch);
  return batch;
}

int64_t text_bytes(const Sampler& sampler, size_t dataset) {
  return static_cast<int64_t>(dynamic_cast<const PreparedDataset&>(*sampler.datasets()[dataset]).text_bytes());
}

std::vector<int32_t> stream_of(const Dataset& dataset) {
  std::vector<int32_t> stream(dataset.tokens());
  dataset.read(0, stream);
  return stream;
}

}  // namespace

TEST_CASE("without shuffling windows are consecutive and each target is the next token") {
  const TemporaryFolder dir;
  prepare_lines(dir, numbered_lines(30), "a");
  DataSection spec = section(dir, 16);
  spec.shuffle = false;
  const TrainSampler sampler(spec, 1);
  const auto stream = stream_of(*sampler.datasets()[0]);
  const auto windows = static_cast<int64_t>(sampler.epoch_samples(0));
  CHECK(windows == (static_cast<int64_t>(stream.size()) - 1) / 16);
  const Batch batch = batch_of(sampler, 0, windows + 1);
  for (int64_t i = 0; i < windows * 16; ++i) {
    const auto t = static_cast<size_t>(i);
    REQUIRE(batch.tokens[t] == stream[t]);
    REQUIRE(batch.targets[t] == stream[t + 1]);
    REQUIRE(batch.positions[t] == i % 16);
    REQUIRE(batch.doc_start[t] == 0);
  }
  CHECK(std::equal(stream.begin(), stream.begin() + 16, batch.tokens.end() - 16));  // the next epoch begins
  CHECK(count_targets(batch) == (windows + 1) * 16);
  CHECK(batch.sample_ids.back() == static_cast<uint64_t>(windows));
}

TEST_CASE("a shuffled epoch visits every window once, shifted by the epoch's offset") {
  const TemporaryFolder dir;
  prepare_lines(dir, numbered_lines(60), "a");
  const TrainSampler sampler(section(dir, 32), 5);
  const uint64_t n = sampler.epoch_samples(0), spare = sampler.datasets()[0]->tokens() - 1 - n * 32;
  REQUIRE(spare > 3);
  std::set<uint64_t> offsets;
  for (uint64_t epoch = 0; epoch < 40; ++epoch) {
    std::set<uint64_t> starts;
    for (uint64_t i = 0; i < n; ++i) {
      const auto place = sampler.place(epoch * n + i);
      REQUIRE(place.epoch == epoch);
      starts.insert(place.first_token);
    }
    CHECK(starts.size() == n);
    const uint64_t offset = *starts.begin();
    offsets.insert(offset);
    CHECK(offset <= spare);
    CHECK(*starts.rbegin() == offset + (n - 1) * 32);
  }
  CHECK(offsets.size() > 3);
}

TEST_CASE("samples do not depend on batch size, order, restarts or threads") {
  const TemporaryFolder dir;
  prepare_lines(dir, numbered_lines(50), "a");
  prepare_lines(dir, "other " + numbered_lines(80), "b");
  DataSection spec = section(dir, 24, {{"a", 2.0}, {"b", 1.0}});
  spec.mask_documents = true;
  const TrainSampler sampler(spec, 99);
  const Batch whole = batch_of(sampler, 0, 200);
  const TrainSampler resumed(spec, 99);
  for (const auto& [first, n] : std::vector<std::pair<int64_t, int64_t>>{{150, 50}, {0, 1}, {37, 11}, {199, 1}}) {
    const Batch part = batch_of(resumed, static_cast<uint64_t>(first), n);
    CHECK(std::equal(part.tokens.begin(), part.tokens.end(), whole.tokens.begin() + first * 24));
    CHECK(std::equal(part.targets.begin(), part.targets.end(), whole.targets.begin() + first * 24));
    CHECK(std::equal(part.sample_ids.begin(), part.sample_ids.end(), whole.sample_ids.begin() + first));
  }
  std::vector<Batch> batches(4);
  set_threads(4);
  parallel([&](int thread, int threads) {
    for (int i = thread; i < 4; i += threads) sampler.fill(0, 200, batches[static_cast<size_t>(i)]);
  });
  set_threads(0);
  for (const Batch& batch : batches) CHECK(operator_equal(batch, whole));
  const Batch other_seed = batch_of(TrainSampler(spec, 100), 0, 200);
  CHECK(other_seed.tokens != whole.tokens);
}

TEST_CASE("a reused batch equals a new one") {
  const TemporaryFolder dir;
  prepare_lines(dir, numbered_lines(50), "a");
  const TrainSampler sampler(section(dir, 24), 1);
  Batch reused = batch_of(sampler, 7, 9);
  sampler.fill(3, 4, reused);
  CHECK(operator_equal(reused, batch_of(sampler, 3, 4)));
}

TEST_CASE("datasets are mixed by weight, each in its own order and epochs") {
  const TemporaryFolder dir;
  prepare_lines(dir, numbered_lines(40), "a");
  prepare_lines(dir, numbered_lines(100), "b");
  const TrainSampler mixed(section(dir, 16, {{"a", 3.0}, {"b", 1.0}}), 4);
  std::map<int, int> counts;
  std::map<std::pair<int, uint64_t>, std::set<uint64_t>> visited;
  const uint64_t total = mixed.epoch_samples(0) * 8;
  for (uint64_t g = 0; g < total; ++g) {
    const auto place = mixed.place(g);
    ++counts[place.dataset];
    CHECK(visited[{place.dataset, place.epoch}].insert(place.first_token).second);
  }
  CHECK(std::abs(counts[0] - static_cast<int>(total * 3 / 4)) <= 1);
  const std::vector<double> epochs = mixed.epochs(total);
  REQUIRE(epochs.size() == 2);
  for (const int d : {0, 1})
    CHECK(epochs[static_cast<size_t>(d)] ==
          Approx(static_cast<double>(counts[d]) / static_cast<double>(mixed.epoch_samples(d))));
  CHECK(visited[{0, 2}].size() == mixed.epoch_samples(0));
}

TEST_CASE("with masked documents no target crosses a document boundary") {
  const TemporaryFolder dir;
  prepare_lines(dir, "abc\nde\nfghijkl\nmn\nopq\nxyz\n", "a", [](PrepareOptions& o) { o.validation_fraction = 0; });
  DataSection spec = section(dir, 10);
  spec.shuffle = false;
  spec.mask_documents = true;
  const TrainSampler kept(spec, 1);
  const Batch b = batch_of(kept, 0, 1);  // a b c $ d e $ f g h | i
  CHECK(b.tokens == std::vector<int32_t>{'a', 'b', 'c', 256, 'd', 'e', 256, 'f', 'g', 'h'});
  CHECK(b.targets == std::vector<int32_t>{'b', 'c', 256, -1, 'e', 256, -1, 'g', 'h', 'i'});
  CHECK(b.doc_start == std::vector<int32_t>{0, 0, 0, 0, 4, 4, 4, 7, 7, 7});
  CHECK(b.positions == std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(count_targets(b) == 8);
  CHECK(b.target_bytes == 6);
  spec.reset_positions = true;
  CHECK(batch_of(TrainSampler(spec, 1), 0, 1).positions == std::vector<int32_t>{0, 1, 2, 3, 0, 1, 2, 0, 1, 2});
  spec.mask_documents = false;
  CHECK_THROWS_AS(TrainSampler(spec, 1), ConfigError);
}

TEST_CASE("validation uses every token as a target exactly once") {
  const TemporaryFolder dir;
  for (const int lines : {40, 47, 55}) {
    const std::string name = std::to_string(lines);
    prepare_lines(dir, numbered_lines(lines), name, [](PrepareOptions& o) { o.validation_fraction = 0.3; });
    DataSection spec = section(dir, 16, {{name, 1.0}});
    const ValidationSampler sampler(spec, 0);
    const auto stream = stream_of(*sampler.datasets()[0]);
    const Batch b = batch_of(sampler, 0, sampler.size());
    std::vector<int32_t> targets, inputs;
    for (size_t i = 0; i < b.targets.size(); ++i)
      if (b.targets[i] != kIgnoredTarget) targets.push_back(b.targets[i]), inputs.push_back(b.tokens[i]);
    CHECK(targets == stream);
    CHECK(inputs.front() == sampler.tokenizer().eot());
    CHECK(std::equal(inputs.begin() + 1, inputs.end(), stream.begin()));
    CHECK(count_targets(b) == static_cast<int64_t>(stream.size()));
    CHECK(b.target_bytes == text_bytes(sampler, 0));
    // The same samples in several batches.
    int64_t valid = 0;
    for (int64_t i = 0; i < sampler.size(); ++i) valid += count_targets(batch_of(sampler, static_cast<uint64_t>(i), 1));
    CHECK(valid == count_targets(b));
    CHECK_THROWS_AS(batch_of(sampler, static_cast<uint64_t>(sampler.size()), 1), InternalError);
  }
}

TEST_CASE("limited validation takes evenly spaced windows of all datasets") {
  const TemporaryFolder dir;
  prepare_lines(dir, numbered_lines(200), "a", [](PrepareOptions& o) { o.validation_fraction = 0.5; });
  prepare_lines(dir, numbered_lines(100), "b", [](PrepareOptions& o) { o.validation_fraction = 0.5; });
  const DataSection spec = section(dir, 16, {{"a", 1.0}, {"b", 1.0}});
  const ValidationSampler all(spec, 0);
  const Batch whole = batch_of(all, 0, all.size());
  CHECK(whole.target_bytes == text_bytes(all, 0) + text_bytes(all, 1));
  const ValidationSampler some(spec, 10);
  CHECK(some.size() == 10);
  for (int64_t i = 0; i < 10; ++i) {
    const Batch one = batch_of(some, static_cast<uint64_t>(i), 1);
    CHECK(std::equal(one.targets.begin(), one.targets.end(), whole.targets.begin() + i * all.size() / 10 * 16));
  }
  CHECK(ValidationSampler(spec, 1'000'000).size() == all.size());
  CHECK_THROWS_AS(ValidationSampler(spec, -1), ConfigError);
}

TEST_CASE("samples that begin every few tokens have each target at all positions that this gives") {
  const TemporaryFolder dir;
  for (const char* const name : {"a", "b"})
    prepare_lines(dir, name + numbered_lines(40), name, [](PrepareOptions& o) { o.validation_fraction = 0.3; });
  const DataSection spec = section(dir, 16, {{"a", 1.0}, {"b", 1.0}});
  for (const int64_t stride : {1, 5, 8, 16}) {
    CAPTURE(stride);
    const ValidationSampler sampler(spec, 0, {}, stride);
    std::set<int64_t> passages;
    for (size_t d = 0; d < 2; ++d) {
      const auto stream = stream_of(*sampler.datasets()[d]);
      std::map<int64_t, std::vector<int64_t>> positions;  // by offset
      const auto [begin, end] = sampler.samples_of(d);
      for (int64_t s = begin; s < end; ++s) {
        const Batch b = batch_of(sampler, static_cast<uint64_t>(s), 1);
        for (int64_t p = 0; p < 16; ++p) {
          if (b.targets[static_cast<size_t>(p)] == kIgnoredTarget) continue;
          const auto [passage, offset] = sampler.target(static_cast<uint64_t>(s), p);
          REQUIRE(offset < static_cast<int64_t>(stream.size()));
          CHECK(b.targets[static_cast<size_t>(p)] == stream[static_cast<size_t>(offset)]);
          CHECK(passage < sampler.passages());
          CHECK(passages.insert(passage).second == (positions[offset].empty() && offset % 16 == 0));
          positions[offset].push_back(p);
        }
      }
      REQUIRE(positions.size() == stream.size());
      if (d == 1) CHECK(static_cast<int64_t>(passages.size()) == sampler.passages());
      for (auto& [offset, found] : positions) {
        std::vector<int64_t> expected;
        for (int64_t p = offset % stride; p < 16 && p <= offset; p += stride) expected.push_back(p);
        std::ranges::sort(found);
        CHECK(found == expected);
      }
    }
  }
  const ValidationSampler some(spec, 7);
  for (uint64_t s = 0; s < 7; ++s) CHECK(some.target(s, 3).passage == static_cast<int64_t>(s));
  CHECK_THAT(message_of<ConfigError>([&] { ValidationSampler(spec, 0, {}, 17); }), Contains("legal: 1 to"));
  DataSection documents = spec;
  documents.sampling = Sampling::documents;
  documents.long_documents = LongDocuments::truncate;
  CHECK_THAT(message_of<ConfigError>([&] { ValidationSampler(documents, 0, {}, 8); }), Contains("legal: packed"));
}

TEST_CASE("validation without held-out text is refused unless a dataset is named") {
  const TemporaryFolder dir;
  const auto none = [](PrepareOptions& o) { o.validation_fraction = 0; };
  prepare_lines(dir, numbered_lines(20), "a", none);
  prepare_lines(dir, numbered_lines(30), "b");
  DataSection spec = section(dir, 16);
  CHECK_THAT(message_of<DataError>([&] { ValidationSampler(spec, 0); }), Contains("no held-out text"));
  spec.validation = (dir / "b").string();
  const ValidationSampler sampler(spec, 0);
  CHECK(batch_of(sampler, 0, sampler.size()).target_bytes == text_bytes(sampler, 0));
}

TEST_CASE("a folder named for validation is read where it holds text out, else whole unless it is trained on") {
  const TemporaryFolder dir;
  const auto none = [](PrepareOptions& o) { o.validation_fraction = 0; };
  prepare_lines(dir, numbered_lines(30), "whole", none);
  prepare_lines(dir, "more " + numbered_lines(30), "split", [](PrepareOptions& o) { o.validation_fraction = 0.5; });
  const auto tokens = [&](const std::string& named, std::vector<DatasetSpec> train) {
    DataSection spec = section(dir, 16, std::move(train));
    spec.validation = (dir / named).string();
    const ValidationSampler sampler(spec, 0);
    REQUIRE(sampler.datasets().size() == 1);
    return sampler.datasets()[0]->tokens();
  };
  const PreparedDataset whole(dir / "whole", Split::train), held_out(dir / "split", Split::validation);
  CHECK(tokens("split", {{"split"}}) == held_out.tokens());
  CHECK(tokens("split", {{"whole"}}) == held_out.tokens());
  CHECK(tokens("whole", {{"split"}}) == whole.tokens());
  CHECK_THAT(message_of<ConfigError>([&] {
               tokens("whole", {{"split"}, {"whole"}});
             }),
             Contains("data.validation: ") && Contains("holds nothing out and is also trained on (data.train[1].path"));
  std::filesystem::create_directory_symlink(dir / "whole", dir / "link");
  CHECK_THAT(message_of<ConfigError>([&] { tokens("whole", {{"link"}}); }), Contains("data.train[0].path"));
}

TEST_CASE("a pattern that trains on the file named for validation is refused") {
  const TemporaryFolder dir;
  for (const char* name : {"text_1.bin", "text_2.bin"}) {
    std::ofstream file(dir / name, std::ios::binary);
    for (int i = 0; i < 100; ++i) file << static_cast<char>(i) << '\0';
  }
  DataSection spec = section(dir, 16, {{"text_*.bin", 1.0}});
  spec.train[0].format = spec.validation_format = "nanogpt";
  spec.tokenizer = "bytes";
  spec.validation = (dir / "text_2.bin").string();
  CHECK_THAT(message_of<ConfigError>([&] { ValidationSampler(spec, 0); }), Contains("is also trained on"));
  spec.train[0].path = (dir / "text_1.bin").string();
  write_text(dir / "text_2.bin", std::string(200, '\0'));
  CHECK(ValidationSampler(spec, 0).size() == 7);
}

TEST_CASE("the samples of each validation dataset are a range, and a label tells datasets apart") {
  const TemporaryFolder dir;
  for (const char* folder : {"x", "y"}) std::filesystem::create_directory(dir / folder);
  for (const char* name : {"x/a", "y/a", "b"})
    prepare_lines(dir, name + numbered_lines(60), name, [](PrepareOptions& o) { o.validation_fraction = 0.5; });
  const ValidationSampler some(section(dir, 16, {{"x/a", 1.0}, {"b", 1.0}, {"y/a", 1.0}}), 11);
  CHECK(some.labels() == std::vector<std::string>{"x/a", some.labels()[1], "y/a"});
  CHECK_THAT(some.labels()[1], Catch::EndsWith("/b"));
  int64_t next = 0;
  for (size_t d = 0; d < 3; ++d) {
    const auto [begin, end] = some.samples_of(d);
    CHECK(begin == next);
    CHECK(end > begin);
    next = end;
    const ValidationSampler alone(section(dir, 16, {{std::vector<std::string>{"x/a", "b", "y/a"}[d], 1.0}}), 0);
    const Batch all = batch_of(alone, 0, alone.size());
    for (int64_t i = begin; i < end; ++i) {
      const Batch one = batch_of(some, static_cast<uint64_t>(i), 1);
      CHECK(std::search(all.targets.begin(), all.targets.end(), one.targets.begin(), one.targets.end()) !=
            all.targets.end());
    }
  }
  CHECK(next == 11);
  CHECK(ValidationSampler(section(dir, 16, {{"b", 1.0}}), 3).labels() == std::vector<std::string>{"b"});
}

TEST_CASE("too little text, ids beyond the vocabulary and mixed tokenizers are refused before training") {
  const TemporaryFolder dir;
  const auto none = [](PrepareOptions& o) { o.validation_fraction = 0; };
  prepare_lines(dir, "0123456\n", "a", none);  // 8 tokens
  CHECK(TrainSampler(section(dir, 7), 1).epoch_samples(0) == 1);
  CHECK_THAT(message_of<DataError>([&] { TrainSampler(section(dir, 8), 1); }), Contains("needs 9"));
  CHECK_THROWS_AS(TrainSampler(section(dir, 0), 1), ConfigError);
  CHECK_THROWS_AS(TrainSampler(section(dir, 8, {}), 1), ConfigError);
  const TrainSampler sampler(section(dir, 4), 1);
  CHECK(sampler.highest_id() == 256);
  sampler.check_vocab(257);
  CHECK_THAT(message_of<DataError>([&] { sampler.check_vocab(256); }), Contains("holds token id 256"));
  write_text(dir / "t.json", trained_json("aa aa", 258));
  prepare_lines(dir, "0123456\n", "b", [&](PrepareOptions& o) {
    o.validation_fraction = 0;
    o.tokenizer = (dir / "t.json").string();
  });
  CHECK_THAT(message_of<DataError>([&] {
               TrainSampler(section(dir, 4, {{"a", 1.0}, {"b", 1.0}}), 1);
             }),
             Contains("different tokenizers"));
  CHECK_THROWS_AS(TrainSampler(section(dir, 4, {{"missing", 1.0}}), 1), DataError);
}
