// Prepared conversations and preferences, and samples that consist of whole documents.
#include <catch2/catch.hpp>
#include <iterator>
#include <set>

#include "base/error.h"
#include "data/chat_support.h"
#include "data/formats/prepared_dataset.h"
#include "data/prepare/convert.h"
#include "data/sampling/sampler.h"
#include "io/filesystem.h"

using namespace fp;
using namespace fp::test;
using Catch::Matchers::Contains;

namespace {

std::string talk(const std::string& question, const std::string& answer) {
  return R"({"messages": [{"role": "user", "content": ")" + question + R"("}, {"role": "assistant", "content": ")" +
         answer + "\"}]}\n";
}

std::string pair_of(const std::string& question, const std::string& chosen, const std::string& rejected) {
  return R"({"messages": [{"role": "user", "content": ")" + question + R"("}], "chosen": ")" + chosen +
         R"(", "rejected": ")" + rejected + "\"}\n";
}

Manifest prepare_chat(const TemporaryFolder& dir, const std::string& lines, DataKind kind, double validation = 0.0) {
  write_text(dir / "chat.jsonl", lines);
  write_text(dir / "t.json", phi_tokenizer_json(false));
  PrepareOptions options;
  options.corpus.files = {dir / "chat.jsonl"};
  options.tokenizer = (dir / "t.json").string();
  options.out = dir / "out";
  options.overwrite = true;
  options.validation_fraction = validation;
  options.shard_tokens = 7;  // documents run across shards
  options.encoding.kind = kind;
  options.encoding.chat.format = "phi3";
  return prepare(options);
}

DataSection documents_of(const TemporaryFolder& dir, int64_t seq_len,
                         LongDocuments long_documents = LongDocuments::error) {
  DataSection spec;
  spec.train = {{(dir / "out").string()}};
  spec.seq_len = seq_len;
  spec.sampling = Sampling::documents;
  spec.long_documents = long_documents;
  spec.shuffle = false;
  return spec;
}

constexpr int32_t kUser = 301, kAssistant = 302, kEnd = 303, kEot = 256, kLine = 198;

}  // namespace

TEST_CASE("conversations have a loss mask that is verified like the tokens") {
  const TemporaryFolder dir;
  const Manifest m = prepare_chat(dir, talk("a", "b") + talk("cc", "dd"), DataKind::chat);
  CHECK(m.version() == 3);
  CHECK(m.train.loss_masks.size() == m.train.shards.size());
  const PreparedDataset dataset(dir / "out", Split::train);
  REQUIRE(dataset.has_loss_mask());
  std::vector<int32_t> ids(dataset.tokens()), loss_mask(dataset.tokens());
  dataset.read(0, ids);
  dataset.read_loss_mask(0, loss_mask);
  const int32_t c = 'c' - '!', d = 'd' - '!';
  CHECK(ids == std::vector<int32_t>{kUser, kLine,      'a' - '!', kEnd,  kLine, kAssistant, kLine, 'b' - '!',
                                    kEnd,  kLine,      kEot,      kUser, kLine, c,          c,     kEnd,
                                    kLine, kAssistant, kLine,     d,     d,     kEnd,       kLine, kEot});
  CHECK(loss_mask == std::vector<int32_t>{0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0});
  std::string mask = read_file(dir / "out/train-00001.mask");
  mask[0] ^= 1;
  write_text(dir / "out/train-00001.mask", mask);
  CHECK_THAT(message_of<DataError>([&] { PreparedDataset(dir / "out", Split::train); }),
             Contains("train-00001.mask: altered"));
  mask[0] ^= 1;
  write_text(dir / "out/train-00001.mask", mask);
  ConvertOptions convert_options;
  convert_options.source.path = (dir / "out").string();
  convert_options.to = "megatron";
  convert_options.out = dir / "m";
  CHECK_THAT(message_of<ConfigError>([&] { convert(convert_options); }), Contains("loss mask"));
}

TEST_CASE("with document sampling a sample is one document with the answers as targets") {
  const TemporaryFolder dir;
  prepare_chat(dir, talk("a", "b") + talk("cc", "dd"), DataKind::chat);
  const TrainSampler sampler(documents_of(dir, 13), 1);
  CHECK(sampler.epoch_samples(0) == 2);
  Batch b;
  sampler.fill(1, 2, b);  // the second document, then the first again
  CHECK(b.n == 2);
  CHECK(b.sample_ids == std::vector<uint64_t>{1, 2});
  const int32_t x = kIgnoredTarget, c = 'c' - '!', d = 'd' - '!';
  CHECK(std::vector<int32_t>(b.tokens.begin(), b.tokens.begin() + 13) ==
        std::vector<int32_t>{kUser, kLine, c, c, kEnd, kLine, kAssistant, kLine, d, d, kEnd, kLine, kEot});
  CHECK(std::vector<int32_t>(b.targets.begin(), b.targets.begin() + 13) ==
        std::vector<int32_t>{x, x, x, x, x, x, x, d, d, kEnd, x, x, x});
  CHECK(b.tokens[13] == kUser);
  CHECK(b.tokens[25] == kEot);  // padding
  CHECK(count_targets(b) == 5);
  CHECK(b.target_bytes == 3);
  // Packed windows of the same folder have the same targets.
  DataSection packed = documents_of(dir, 23);
  packed.sampling = Sampling::packed;
  TrainSampler(packed, 1).fill(0, 1, b);
  CHECK(count_targets(b) == 5);
  packed.mask_documents = true;
  TrainSampler(packed, 1).fill(0, 1, b);
  CHECK(b.doc_start[10] == 0);
  CHECK(b.doc_start[11] == 11);
}

TEST_CASE("documents are reshuffled in each epoch and each occurs once") {
  const TemporaryFolder dir;
  prepare_lines(dir, numbered_lines(30), "out", [](PrepareOptions& o) { o.validation_fraction = 0; });
  DataSection spec = documents_of(dir, 40);
  spec.shuffle = true;
  const TrainSampler sampler(spec, 5);
  std::vector<uint64_t> orders[2];
  for (uint64_t epoch = 0; epoch < 2; ++epoch)
    for (uint64_t i = 0; i < 30; ++i) orders[epoch].push_back(sampler.place(epoch * 30 + i).document);
  for (const auto& order : orders) CHECK(std::set<uint64_t>(order.begin(), order.end()).size() == 30);
  CHECK(orders[0] != orders[1]);
  spec.validation = (dir / "out").string();
  prepare_lines(dir, "other " + numbered_lines(30), "trained");
  spec.train[0].path = (dir / "trained").string();
  const ValidationSampler all(spec, 0), some(spec, 7);
  CHECK(all.size() == 30);
  Batch whole, part;
  all.fill(0, 30, whole);
  some.fill(3, 1, part);
  CHECK(some.size() == 7);
  CHECK(std::equal(part.tokens.begin(), part.tokens.end(), whole.tokens.begin() + 3 * 30 / 7 * 40));
  CHECK(whole.target_bytes == static_cast<int64_t>(numbered_lines(30).size()) - 30 - 30);  // no first byte is a target
}

TEST_CASE("documents longer than a sample are refused, truncated or omitted as the spec says") {
  const TemporaryFolder dir;
  prepare_chat(dir, talk("a", "b") + talk("cc", "dd") + talk("a long question", "e"), DataKind::chat);
  CHECK_THAT(message_of<DataError>([&] { TrainSampler(documents_of(dir, 10), 1); }),
             Contains("2 of 3 documents") && Contains("document 2, has 25"));
  CHECK(TrainSampler(documents_of(dir, 10, LongDocuments::drop), 1).epoch_samples(0) == 1);
  const TrainSampler cut(documents_of(dir, 8, LongDocuments::truncate), 1);
  CHECK(cut.epoch_samples(0) == 2);  // the last document has no targets
  Batch b;
  cut.fill(1, 1, b);
  CHECK(b.targets.back() == 'd' - '!');
  CHECK_THAT(message_of<DataError>([&] { TrainSampler(documents_of(dir, 3, LongDocuments::drop), 1); }),
             Contains("none of its 3"));
}

TEST_CASE("preferences form pairs of rows that are never separated") {
  const TemporaryFolder dir;
  std::string lines;
  for (int i = 0; i < 10; ++i) lines += pair_of("q" + std::to_string(i), "good", "bad");
  const Manifest m = prepare_chat(dir, lines, DataKind::preferences, 0.2);
  CHECK(m.train.documents == 16);
  CHECK(m.validation.documents == 4);
  const TrainSampler sampler(documents_of(dir, 16), 1);
  CHECK(sampler.rows_per_sample() == 2);
  CHECK(sampler.epoch_samples(0) == 8);
  Batch b;
  sampler.fill(0, 3, b);
  CHECK(b.n == 6);
  CHECK(b.rows_per_sample == 2);
  CHECK(b.sample_ids == std::vector<uint64_t>{0, 0, 1, 1, 2, 2});
  CHECK(b.targets[7] == 'g' - '!');
  CHECK(b.targets[16 + 7] == 'b' - '!');
  CHECK(count_targets(b) == 3 * (5 + 4));
  CHECK(ValidationSampler(documents_of(dir, 16), 0).size() == 2);
  CHECK_THAT(message_of<DataError>([&] { TrainSampler(documents_of(dir, 13), 1); }), Contains("8 of 16 documents"));
  CHECK_THROWS_AS(TrainSampler(documents_of(dir, 13, LongDocuments::drop), 1), DataError);
  DataSection packed = documents_of(dir, 16);
  packed.sampling = Sampling::packed;
  CHECK_THAT(message_of<ConfigError>([&] { TrainSampler(packed, 1); }), Contains("data.sampling: documents"));
}

TEST_CASE("in a preference with several turns only the two final answers are targets") {
  const TemporaryFolder dir;
  const std::string turns =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "PRIOR"},)"
      R"( {"role": "user", "content": "b"}], "chosen": "C", "rejected": "DD"})"
      "\n";
  prepare_chat(dir, turns + pair_of("q", "x", "yy"), DataKind::preferences);
  const TrainSampler sampler(documents_of(dir, 25), 1);
  Batch b;
  sampler.fill(0, 1, b);
  std::vector<int32_t> answer_targets;
  std::copy_if(b.targets.begin(), b.targets.end(), std::back_inserter(answer_targets),
               [](int32_t t) { return t != kIgnoredTarget; });
  const int32_t d = 'D' - '!';
  CHECK(answer_targets == std::vector<int32_t>{'C' - '!', kEnd, d, d, kEnd});
  CHECK(count_targets(b) == 5);
  // Truncated before the answers, a pair has nothing to compare, whatever the assistant said earlier.
  CHECK(TrainSampler(documents_of(dir, 20, LongDocuments::truncate), 1).epoch_samples(0) == 1);
  CHECK(TrainSampler(documents_of(dir, 21, LongDocuments::truncate), 1).epoch_samples(0) == 2);
}
