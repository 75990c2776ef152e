#include "interop/llmc.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string_view>

#include "base/error.h"
#include "config/load.h"
#include "io/readable_file.h"

namespace fp {
namespace {

namespace fs = std::filesystem;

constexpr int32_t kMagic = 20240326, kFp32 = 3, kBf16 = 5;
constexpr uint64_t kHeaderBytes = 256 * sizeof(int32_t);

// The members of llm.c's ParameterTensors in the order of its writer; per-layer ones are stacked over the layers.
constexpr std::array<std::string_view, 16> kLlmcNames = {"wte",
                                                         "wpe",
                                                         "ln1w.{layer}",
                                                         "ln1b.{layer}",
                                                         "qkvw.{layer}",
                                                         "qkvb.{layer}",
                                                         "attprojw.{layer}",
                                                         "attprojb.{layer}",
                                                         "ln2w.{layer}",
                                                         "ln2b.{layer}",
                                                         "fcw.{layer}",
                                                         "fcb.{layer}",
                                                         "fcprojw.{layer}",
                                                         "fcprojb.{layer}",
                                                         "lnfw",
                                                         "lnfb"};

std::array<int32_t, 256> read_header(const fs::path& path, bool& whole) {
  std::array<int32_t, 256> h{};
  facts_of(path);  // refuses a pipe, for whose writer the next line would wait
  whole = ReadableFile(path).read(0, std::as_writable_bytes(std::span(h))) == kHeaderBytes;
  return h;
}

}  // namespace

bool is_llmc_model(const fs::path& path) {
  bool whole = false;
  const auto header = read_header(path, whole);
  return whole && header[0] == kMagic;
}

LlmcModel read_llmc_model(const fs::path& path) {
  bool whole = false;
  const auto header = read_header(path, whole);
  const auto fail = [&](const std::string& what) { throw DataError(fmt::format("{}: {}", path.string(), what)); };
  if (!whole || header[0] != kMagic) fail("is not an llm.c model file");
  const int32_t version = header[1];
  if (version != kFp32 && version != kBf16)
    fail(fmt::format("version {}; legal: {} (fp32) and {} (bf16)", version, kFp32, kBf16));
  const auto value = [&](int i, const char* what, int64_t most) {
    const int64_t v = header[static_cast<size_t>(i)];
    if (v < 1 || v > most) fail(fmt::format("header field {} ({}): {}; legal: 1 to {}", i, what, v, most));
    return v;
  };
  RunSpec spec;
  ModelSection& m = spec.model;
  m.family = kLlmcFamily;
  m.max_position = value(2, "maximum sequence length", 1 << 24);
  m.vocab = value(3, "vocabulary", 1 << 24);
  m.layers = value(4, "layers", 10000);
  m.heads = value(5, "heads", 4096);
  m.hidden = value(6, "channels", 1 << 20);
  const int64_t padded_vocab = value(7, "padded vocabulary", 1 << 24);
  if (padded_vocab < m.vocab)
    fail(fmt::format("padded vocabulary {} is below the vocabulary {}", padded_vocab, m.vocab));
  spec.data.seq_len = std::min(spec.data.seq_len, m.max_position);
  try {
    resolve(spec);
    validate(spec);
  } catch (const ConfigError& e) {
    fail(e.what());
  }
  return {m, padded_vocab, version == kBf16};
}

void require_llmc_mapping(const MappingSpec& mapping) {
  for (size_t i = 0; i < std::max(kLlmcNames.size(), mapping.rules.size()); ++i) {
    const std::string_view is = i < mapping.rules.size() ? std::string_view(mapping.rules[i].source) : "";
    const std::string_view should = i < kLlmcNames.size() ? kLlmcNames[i] : "";
    if (is == should) continue;
    throw ConfigError(
        fmt::format("{}: rules[{}].source is '{}'; legal for an llm.c file, which has no names: its own, in its order, "
                    "here '{}' (see the mapping llmc-gpt)",
                    mapping.name, i, is, should));
  }
}

TensorFiles lay_out_llmc_model(const fs::path& path, const LlmcModel& model, const ParamTable& table,
                               const Layout& layout) {
  TensorFiles files;
  const size_t file = files.add_file(path);
  uint64_t at = kHeaderBytes;
  for (const ParamId id : layout.in_order_of_rules()) {
    const StoredAs& as = layout[id];
    StoredTensor t{model.bf16 ? "BF16" : "F32", as.shape, file, at};
    if (as.pattern == PartPattern::vocabulary) t.shape[0] = model.vocabulary_rows;
    uint64_t elements = 1;
    for (const int64_t d : t.shape) elements *= static_cast<uint64_t>(d);
    at += elements * (model.bf16 ? 2 : 4);
    files.add(as.name(), std::move(t));
  }
  FP_CHECK(layout.in_order_of_rules().size() == table.size(), "a layout is of all parameters");
  if (const uint64_t bytes = facts_of(path).bytes; bytes != at)
    throw DataError(fmt::format("{}: has {} bytes, its header needs {}", path.string(), bytes, at));
  return files;
}

}  // namespace fp
