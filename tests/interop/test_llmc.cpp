// llm.c's model files: without names, stacked over the layers, in the order of its own writer.
#include <catch2/catch.hpp>
#include <cstring>

#include "base/error.h"
#include "checkpoint/folder.h"
#include "interop/llmc.h"
#include "interop/transfer.h"
#include "model_folders.h"

namespace fp {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using test::FileTensor;
using test::Tensors;

// The tensors of each layer in file order (llm.c's train_gpt2.py, write_tensors), by transformers' names.
const std::vector<std::string> kOfLayers = {
    "ln_1.weight", "ln_1.bias", "attn.c_attn.weight", "attn.c_attn.bias", "attn.c_proj.weight", "attn.c_proj.bias",
    "ln_2.weight", "ln_2.bias", "mlp.c_fc.weight",    "mlp.c_fc.bias",    "mlp.c_proj.weight",  "mlp.c_proj.bias"};
constexpr int64_t kRows = 40;  // rows of the embedding, with padding

ModelSection gpt() {
  ModelSection m = test::model_of("gpt");
  m.ffn = 4 * m.hidden;  // as in llm.c
  return m;
}

std::string transposed(const FileTensor& t) {
  std::string bytes;
  for (int64_t j = 0; j < t.shape[1]; ++j)
    for (int64_t i = 0; i < t.shape[0]; ++i) bytes += t.bytes.substr(static_cast<size_t>(i * t.shape[1] + j) * 2, 2);
  return bytes;
}

std::string llmc_file(const ModelSection& m, const Tensors& hf, int32_t version = 5) {
  std::array<int32_t, 256> header = {20240326, version};
  const std::array<int64_t, 6> sizes = {m.max_position, m.vocab, m.layers, m.heads, m.hidden, kRows};
  for (size_t i = 0; i < sizes.size(); ++i) header[2 + i] = static_cast<int32_t>(sizes[i]);
  std::string bytes(sizeof header, '\0');
  std::memcpy(bytes.data(), header.data(), sizeof header);
  const auto tensor = [&](const std::string& name) { return hf.at("transformer." + name); };
  bytes += tensor("wte.weight").bytes + std::string(static_cast<size_t>((kRows - m.vocab) * m.hidden) * 2, 'x');
  bytes += tensor("wpe.weight").bytes;
  for (const std::string& name : kOfLayers)
    for (int64_t l = 0; l < m.layers; ++l) {
      const FileTensor t = tensor(fmt::format("h.{}.{}", l, name));
      bytes += t.shape.size() == 2 ? transposed(t) : t.bytes;
    }
  return bytes + tensor("ln_f.weight").bytes + tensor("ln_f.bias").bytes;
}

TEST_CASE("an llm.c model file equals the Hugging Face folder of the same model", "[llmc]") {
  const ModelSection m = gpt();
  const test::Folder folder("llmc");
  const Tensors hf = test::random_tensors(m, choose_mapping("", "hf", m.family));
  write_file_atomically(folder / "model.bin", llmc_file(m, hf));
  import_model({.from = folder / "model.bin", .to = folder / "checkpoint", .source = {}, .version = "test"});
  export_model(open_checkpoint_at(folder / "checkpoint"), {.to = folder / "out", .type = {}});
  CHECK((test::tensors_in(folder / "out") == hf));
}

TEST_CASE("an llm.c file of another length or version is refused", "[llmc]") {
  const ModelSection m = gpt();
  const test::Folder folder("llmc");
  const Tensors hf = test::random_tensors(m, choose_mapping("", "hf", m.family));
  const auto said = [&](const std::string& bytes) {
    write_file_atomically(folder / "model.bin", bytes);
    try {
      const ForeignModel model(folder / "model.bin");
    } catch (const DataError& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  const std::string bytes = llmc_file(m, hf);
  CHECK(said(bytes) == "accepted");
  CHECK_THAT(said(bytes + "x"),
             Contains(fmt::format("has {} bytes, its header needs {}", bytes.size() + 1, bytes.size())));
  CHECK_THAT(said(bytes.substr(0, bytes.size() - 2)), Contains("its header needs"));
  CHECK_THAT(said(llmc_file(m, hf, 4)), Contains("version 4; legal: 3 (fp32) and 5 (bf16)"));
}

TEST_CASE("an llm.c file is refused for any mapping but llm.c's own", "[llmc]") {
  const ModelSection m = gpt();
  const test::Folder folder("llmc");
  const Tensors hf = test::random_tensors(m, choose_mapping("", "hf", m.family));
  write_file_atomically(folder / "model.bin", llmc_file(m, hf));
  const auto said = [&](const std::string& format, const std::string& mapping) {
    try {
      const ForeignModel model(folder / "model.bin", {.format = format, .mapping = mapping, .config = {}});
    } catch (const ConfigError& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  CHECK(said("llmc", "") == "accepted");
  CHECK(said("", "llmc-gpt") == "accepted");
  CHECK_THAT(said("", "hf-gpt"),
             Contains("hf-gpt") && Contains("rules[0].source is '[transformer.]wte.weight'") && Contains("here 'wte'"));
  CHECK_THAT(said("hf", ""), Contains("rules[0].source"));
  CHECK_THAT(said("nonsense", ""), Contains("--format nonsense") && Contains("legal: "));

  MappingSpec swapped = choose_mapping("llmc-gpt", "", m.family);
  CHECK_NOTHROW(require_llmc_mapping(swapped));
  std::swap(swapped.rules[14], swapped.rules[15]);
  CHECK_THROWS_WITH(require_llmc_mapping(swapped), Contains("rules[14].source is 'lnfb'") && Contains("here 'lnfw'"));
  swapped.rules.resize(14);
  CHECK_THROWS_AS(require_llmc_mapping(swapped), ConfigError);
}

}  // namespace
}  // namespace fp
