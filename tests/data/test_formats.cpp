// Datasets of other trainers, read in place: what is accepted and what is refused.
#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "data/formats/flat_dataset.h"
#include "data/formats/megatron.h"
#include "data/prepare/convert.h"
#include "data/sampling/sampler.h"
#include "data/support.h"
#include "io/filesystem.h"

using namespace fp;
using namespace fp::test;
using Catch::Matchers::Contains;

namespace {

template <class T>
std::string raw(std::initializer_list<T> values) {
  std::string bytes;
  for (const T value : values) bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  return bytes;
}

std::string llmc(int32_t magic, int32_t version, int32_t tokens, const std::string& ids) {
  std::string file = raw({magic, version, tokens});
  file.resize(LlmcHeader::kBytes);
  return file + ids;
}

// Sequences "ab$", "c", "de$" in documents {0}, {1, 2}, {}.
std::string small_index() {
  return std::string(MegatronIndex::kMagic, 9) + raw<uint64_t>({1}) + raw<uint8_t>({8}) + raw<uint64_t>({3, 4}) +
         raw<int32_t>({3, 1, 3}) + raw<int64_t>({0, 6, 8}) + raw<int64_t>({0, 1, 3, 3});
}
const std::string kSmallIds = raw<uint16_t>({'a', 'b', 256, 'c', 'd', 'e', 256});

DatasetSource bytes_source(const std::filesystem::path& path, const std::string& format = "auto") {
  return {path.string(), format, load_tokenizer("bytes")};
}

std::vector<std::string> documents_of(const Dataset& dataset) {
  std::vector<std::string> texts;
  for (uint64_t d = 0; d < dataset.documents(); ++d) {
    const auto [begin, end] = dataset.document(d);
    std::vector<int32_t> ids(end - begin);
    dataset.read(begin, ids);
    texts.emplace_back();
    for (const int32_t id : ids) texts.back() += id == 256 ? '$' : static_cast<char>(id);
  }
  return texts;
}

std::string index_error(const std::string& bytes) {
  return message_of<DataError>([&] { MegatronIndex(BytesInMemory(std::as_bytes(std::span(bytes))), "x.idx"); });
}

std::string with(std::string bytes, size_t at, const std::string& change) {
  return bytes.replace(at, change.size(), change);
}

}  // namespace

TEST_CASE("a Megatron pair opens by its prefix or either file and a document may have several sequences") {
  const TemporaryFolder dir;
  write_text(dir / "t.idx", small_index());
  write_text(dir / "t.bin", kSmallIds);
  for (const char* name : {"t", "t.bin", "t.idx"}) {
    const auto dataset = open_dataset(bytes_source(dir / name), Split::train);
    CHECK(dataset->format() == "megatron");
    CHECK(documents_of(*dataset) == std::vector<std::string>{"ab$", "cde$", ""});
    std::vector<int32_t> ids(dataset->tokens() - 1);
    dataset->read(1, ids);
    std::vector<uint8_t> starts(ids.size());
    dataset->mark_document_starts(1, ids, starts);
    CHECK(starts == std::vector<uint8_t>{0, 0, 1, 0, 0, 0});
    CHECK(open_dataset(bytes_source(dir / name), Split::validation) == nullptr);
  }
  CHECK_THAT(message_of<ConfigError>([&] {
               open_dataset({(dir / "t").string(), "auto", nullptr}, Split::train);
             }),
             Contains("data.tokenizer"));
  write_text(dir / "t.bin", kSmallIds + "x");
  CHECK_THAT(message_of<DataError>([&] { open_dataset(bytes_source(dir / "t"), Split::train); }),
             Contains("t.bin: 15"));
}

TEST_CASE("a Megatron index that contradicts itself is refused") {
  const std::string good = small_index();
  MegatronIndex(BytesInMemory(std::as_bytes(std::span(good))), "x.idx");
  for (size_t length = 0; length < good.size(); ++length) index_error(good.substr(0, length));
  CHECK_THAT(index_error(good + "x"), Contains("1 bytes after"));
  CHECK_THAT(index_error(good + "xyz"), Contains("multimodal"));
  CHECK_THAT(index_error("x" + good.substr(1)), Contains("not a Megatron index"));
  CHECK_THAT(index_error(with(good, 9, raw<uint64_t>({2}))), Contains("version 2"));
  CHECK_THAT(index_error(with(good, 17, raw<uint8_t>({7}))), Contains("type code 7"));
  CHECK_THAT(index_error(with(good, 18, raw<uint64_t>({~uint64_t{0}}))), Contains("do not fit"));
  CHECK_THAT(index_error(with(good, 26, raw<uint64_t>({0}))), Contains("do not fit"));
  CHECK_THAT(index_error(with(good, 34, raw<int32_t>({-1}))), Contains("sequence 0 has -1 tokens"));
  CHECK_THAT(index_error(with(good, 46 + 8, raw<int64_t>({7}))), Contains("sequence 1 begins at byte 7"));
  CHECK_THAT(index_error(with(good, 70, raw<int64_t>({1}))), Contains("not from 0"));
  CHECK_THAT(index_error(with(good, 78, raw<int64_t>({-1}))), Contains("document entry 1 is -1"));
}

TEST_CASE("llm.c shards form one stream in which an end-of-text token begins a document") {
  const TemporaryFolder dir;
  write_text(dir / "t_0.bin", llmc(20240520, 1, 3, raw<uint16_t>({256, 'a', 'b'})));
  write_text(dir / "t_1.bin", llmc(20240520, 1, 4, raw<uint16_t>({'c', 256, 256, 'd'})));
  const auto dataset = open_dataset(bytes_source(dir / "t_*.bin"), Split::train);
  CHECK(dataset->format() == "llmc");
  CHECK(documents_of(*dataset) == std::vector<std::string>{"$abc", "$", "$d"});
  write_text(dir / "t_2.bin", llmc(20240801, 7, 1, raw<uint32_t>({1})));
  const auto error = [&] {
    return message_of<DataError>([&] { open_dataset(bytes_source(dir / "t_*.bin"), Split::train); });
  };
  CHECK_THAT(error(), Contains("t_2.bin: has ids of another width"));
  write_text(dir / "t_2.bin", llmc(20240520, 2, 0, ""));
  CHECK_THAT(error(), Contains("version 2"));
  write_text(dir / "t_2.bin", llmc(20240520, 1, 2, "ab"));
  CHECK_THAT(error(), Contains("truncated or altered"));
  write_text(dir / "t_2.bin", llmc(20240520, 1, -1, ""));
  CHECK_THAT(error(), Contains("-1 tokens"));
  write_text(dir / "t_2.bin", llmc(1, 1, 0, ""));
  CHECK_THAT(error(), Contains("magic number 1"));
}

TEST_CASE("nanoGPT needs an explicit format and ids unknown to the tokenizer are refused when read") {
  const TemporaryFolder dir;
  write_text(dir / "train.bin", raw<uint16_t>({'a', 256, 'b', 'c', 256, 300}));
  CHECK_THAT(message_of<ConfigError>([&] { open_dataset(bytes_source(dir / "train.bin"), Split::train); }),
             Contains("set format: nanogpt"));
  const auto dataset = open_dataset(bytes_source(dir / "train.bin", "nanogpt"), Split::train);
  CHECK_THAT(message_of<DataError>([&] { dataset->documents(); }), Contains("train.bin: token 5 is 300"));
  write_text(dir / "train.bin", raw<uint16_t>({'a', 256, 'b', 'c', 256, 'd'}));
  CHECK(documents_of(*open_dataset(bytes_source(dir / "train.bin", "nanogpt"), Split::train)) ==
        std::vector<std::string>{"a$", "bc$", "d"});
  write_text(dir / "odd.bin", "abc");
  CHECK_THROWS_AS(open_dataset(bytes_source(dir / "odd.bin", "nanogpt"), Split::train), DataError);
  CHECK_THROWS_AS(open_dataset(bytes_source(dir / "train.bin", "csv"), Split::train), ConfigError);
  CHECK_THROWS_AS(open_dataset(bytes_source(dir / "none"), Split::train), DataError);
}

TEST_CASE("a conversion replaces no file or folder of its source") {
  const TemporaryFolder dir;
  const std::string ids = raw<uint16_t>({'a', 256});
  for (const char* name : {"t_0.bin", "t_1.bin"}) write_text(dir / name, ids);
  prepare_lines(dir, numbered_lines(60), "folder", [](PrepareOptions& o) { o.validation_fraction = 0; });
  write_text(dir / "folder/inside.bin", ids);
  const std::string manifest = read_file(dir / "folder/manifest.json");
  const auto refused = [&](const DatasetSource& from, const std::string& to, const std::string& name) {
    ConvertOptions o{.source = from, .split = Split::train, .to = to, .out = dir / name, .overwrite = true};
    return message_of<ConfigError>([&] { convert(o); });
  };
  const std::string why = "belongs to the dataset that is read";
  CHECK_THAT(refused(bytes_source(dir / "t_*.bin", "nanogpt"), "nanogpt", "t_1.bin"), Contains(why));
  CHECK_THAT(refused(bytes_source(dir / "t_*.bin", "nanogpt"), "megatron", "t_0"), Contains(why));
  const DatasetSource folder{(dir / "folder").string(), "auto", nullptr};
  CHECK_THAT(refused(folder, "prepared", "folder"), Contains(why));
  CHECK_THAT(refused(folder, "nanogpt", "folder/train-00000.tokens"), Contains(why));
  CHECK_THAT(refused(folder, "megatron", "folder/new"), Contains(why));
  std::filesystem::create_directory_symlink(dir / "folder", dir / "link");
  CHECK_THAT(refused(folder, "llmc", "link/train-00000.tokens"), Contains(why));
  CHECK_THAT(refused(bytes_source(dir / "folder/inside.bin", "nanogpt"), "prepared", "folder"), Contains(why));
  CHECK(read_file(dir / "t_1.bin") == ids);
  CHECK(read_file(dir / "folder/manifest.json") == manifest);
}

TEST_CASE("the identity of a large file changes with its size and its sampled blocks") {
  const TemporaryFolder dir;
  std::string ids(4'000'000, 'a');
  const auto identity = [&] {
    write_text(dir / "t.bin", ids);
    return open_dataset({(dir / "t.bin").string(), "nanogpt", load_tokenizer("bytes")}, Split::train)->identity();
  };
  const std::string first = identity();
  CHECK(identity() == first);
  ids[5] = 'b';
  const std::string second = identity();
  CHECK(second != first);
  ids.resize(ids.size() - 2);
  CHECK(identity() != second);
}

TEST_CASE("samples of the same stream are the same in every format") {
  const TemporaryFolder dir;
  prepare_lines(dir, numbered_lines(60), "folder", [](PrepareOptions& o) { o.validation_fraction = 0; });
  const auto write = [&](const DatasetSource& from, const std::string& to, const std::string& name) {
    ConvertOptions options;
    options.source = from;
    options.to = to;
    options.out = dir / name;
    return convert(options);
  };
  const DatasetSource folder{(dir / "folder").string(), "auto", nullptr};
  CHECK(write(folder, "megatron", "m").documents == 60);
  write(folder, "nanogpt", "n.bin");
  write(folder, "llmc", "l.bin");
  write(bytes_source(dir / "l.bin"), "prepared", "again");
  CHECK(read_file(dir / "again/train-00000.tokens") == read_file(dir / "folder/train-00000.tokens"));
  CHECK_THROWS_AS(write(folder, "nanogpt", "n.bin"), ConfigError);
  DataSection spec;
  spec.seq_len = 16;
  spec.mask_documents = true;
  Batch expected;
  spec.train = {{(dir / "folder").string()}};
  TrainSampler(spec, 3).fill(0, 40, expected);
  spec.tokenizer = "bytes";
  for (const char* name : {"m", "n.bin"}) {
    spec.train = {{(dir / name).string(), 1.0, name[0] == 'n' ? "nanogpt" : "auto"}};
    const TrainSampler sampler(spec, 3);
    CHECK_FALSE(sampler.datasets()[0]->held_out_tokens());
    Batch batch;
    sampler.fill(0, 40, batch);
    CHECK(batch.tokens == expected.tokens);
    CHECK(batch.targets == expected.targets);
    CHECK(batch.doc_start == expected.doc_start);
    CHECK(batch.target_bytes == expected.target_bytes);
    CHECK_THROWS_AS(ValidationSampler(spec, 0), DataError);
    spec.validation = (dir / "l.bin").string();
    CHECK(ValidationSampler(spec, 0).size() == static_cast<int64_t>(sampler.datasets()[0]->tokens() + 15) / 16);
    spec.validation.clear();
  }
  write_text(dir / "t.json", trained_json("aa aa", 258));
  spec.tokenizer = (dir / "t.json").string();
  spec.train = {{(dir / "folder").string()}};
  CHECK_THAT(message_of<ConfigError>([&] { TrainSampler(spec, 3); }), Contains("another tokenizer"));
}
