// Every JSON file that a run, an import or an inspection reads, nested so deeply that a recursive walk over its values
// overflows the stack.
#include <catch2/catch.hpp>
#include <fstream>
#include <functional>

#include "checkpoint/manifest.h"
#include "config/hf/hf_config.h"
#include "data/formats/manifest.h"
#include "data/text/corpus.h"
#include "data/tokenizer/tokenizer.h"
#include "inference/probe.h"
#include "interop/companions.h"
#include "interop/safetensors.h"
#include "interop/tensor_files.h"
#include "io/filesystem.h"
#include "report/metrics.h"
#include "report/run_facts.h"
#include "support/temporary_folder.h"
#include "train/restarts.h"

using namespace fp;
using Catch::Matchers::Contains;

namespace {

const test::TemporaryFolder& place() {
  static const test::TemporaryFolder folder;
  return folder;
}

std::filesystem::path written(const std::string& name, const std::string& text) {
  const std::filesystem::path file = place() / name;
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary | std::ios::trunc) << text;
  return file;
}

// Returns the JSON text `around` with the value @ nested deeply, without or with its closing brackets.
std::vector<std::string> nested(const std::string& around) {
  std::vector<std::string> texts;
  const size_t at = around.find('@');
  for (const size_t depth : {150'000, 2'000'000}) {
    const std::string before = around.substr(0, at) + std::string(depth, '[');
    texts.push_back(before + std::string(depth, ']') + around.substr(at + 1));
    texts.push_back(before);
  }
  return texts;
}

// Checks that every way of nesting a value into `around` is refused as bad data.
void check_refused(const std::string& around, const std::function<void(const std::string&)>& read) {
  INFO(around);
  for (const std::string& text : nested(around)) {
    std::string message = "not refused";
    try {
      read(text);
    } catch (const DataError& e) {
      message = e.what();
    }
    CHECK_THAT(message, Contains("nested lists and objects; legal: up to"));
  }
}

// A checkpoint's manifest ends with the hash of everything before it.
void write_sealed(const std::string& text) {
  const std::string before = text + ",\n";
  written("checkpoint/manifest.json", before + "  \"xxh3\": \"" + hash_bytes(before.data(), before.size()) + "\"\n}\n");
}

}  // namespace

TEST_CASE("a checkpoint manifest with deeply nested values is refused") {
  for (const char* around : {R"({"format": "fptrain checkpoint", "version": 1, "extra": {"a": @})",
                             R"({"format": "fptrain checkpoint", "version": @)",
                             R"({"format": "fptrain checkpoint", "version": 9, "created_by": @)", R"({"format": @)"})
    check_refused(around, [](const std::string& text) {
      write_sealed(text);
      read_checkpoint_manifest(place() / "checkpoint");
    });
}

TEST_CASE("a dataset manifest with deeply nested values is refused") {
  for (const char* around : {R"({"format": @})", R"({"format": "fptrain-tokens", "version": @})"})
    check_refused(around,
                  [](const std::string& text) { read_manifest(written("data/manifest.json", text).parent_path()); });
}

TEST_CASE("model files with deeply nested values are refused") {
  check_refused(R"({"weight_map": {"a": @}})", [](const std::string& text) {
    TensorFiles::open_safetensors(written("model/model.safetensors.index.json", text).parent_path());
  });
  check_refused(R"({"a": {"dtype": @}})", [](const std::string& text) {
    uint64_t n = text.size();
    parse_safetensors(std::string(reinterpret_cast<const char*>(&n), sizeof n) + text, sizeof n + n, "x.safetensors");
  });
  for (const char* around : {R"({"model_type": @})", R"({"model_type": "llama", "rope_scaling": {"type": @}})"})
    check_refused(around, [](const std::string& text) { model_from_hf_config(text, "config.json"); });
  check_refused(R"({"eos_token_id": @})", [](const std::string& text) {
    eos_ids(carried_json({{"generation_config.json", text}}, "generation_config.json"), "generation_config.json");
  });
}

TEST_CASE("a tokenizer with deeply nested values is refused") {
  for (const char* around : {R"({"model": @})", R"({"model": {"type": "BPE", "vocab": {"a": @}}})",
                             R"({"type": "fptrain-tokenizer", "version": @})"})
    check_refused(around, [](const std::string& text) { parse_tokenizer(text, "tokenizer.json"); });
  check_refused(R"({"eos_token": @})", [](const std::string& text) {
    load_tokenizer(written("tokenizer/tokenizer_config.json", text).parent_path().string());
  });
}

TEST_CASE("a corpus line with deeply nested values is refused with its file and line") {
  check_refused(R"({"text": "", "meta": @})", [](const std::string& text) {
    CorpusOptions options;
    options.files = {written("lines.jsonl", "{\"text\": \"fine\"}\n" + text + "\n")};
    CorpusReader reader(options);
    DocumentBatch batch;
    reader.next(size_t{1} << 30, batch);
    std::string scratch;
    CHECK(batch.text(0, scratch) == "fine");
    CHECK_THROWS_WITH(batch.text(1, scratch), Contains("lines.jsonl:2: column "));
    batch.object(1);
  });
}

TEST_CASE("a report, a batch and a history with deeply nested values are refused") {
  for (const char* around : {R"({"name": @})", R"({"machine": {"a": @}})"})
    check_refused(around,
                  [](const std::string& text) { load_run_facts(written("run/report.json", text).parent_path()); });
  check_refused(R"({"tokens": @})", [](const std::string& text) {
    ProbeOptions options;
    read_probe_batch(written("batch.json", text), options);
  });
  for (const std::string& text : nested(R"({"step": 1, "loss": 1, "x": @})")) CHECK_FALSE(parse_json_line(text));
}

TEST_CASE("a restarts.json with deeply nested values is set aside") {
  for (const std::string& text : nested(R"({"starts": @})")) {
    const auto file = written("restarts.json", text);
    CHECK_FALSE(last_save(file));
    record_save(file, {2.5, 4});
    CHECK(last_save(file)->seconds == 2.5);
  }
}
