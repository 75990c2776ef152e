#include "interop/llmc.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "config/load.h"

namespace fp {
namespace {

namespace fs = std::filesystem;

constexpr int32_t kMagic = 20240326, kFp32 = 3, kBf16 = 5;
constexpr uint64_t kHeaderBytes = 256 * sizeof(int32_t);

std::array<int32_t, 256> read_header(const fs::path& path, bool& whole) {
  std::array<int32_t, 256> h{};
  std::ifstream in(path, std::ios::binary);
  in.read(reinterpret_cast<char*>(h.data()), kHeaderBytes);
  whole = static_cast<uint64_t>(in.gcount()) == kHeaderBytes;
  return h;
}

// Lays the parameters out one after the other.
class Stack {
 public:
  Stack(TensorFiles& files, size_t file, bool bf16) : files_(files), file_(file), bf16_(bf16) {}
  // A tensor of `rows` stored rows of which the first `kept` are real. columns 0: a vector.
  void add(const std::string& name, int64_t kept, int64_t columns, int64_t rows) {
    const int64_t width = columns > 0 ? columns : 1;
    StoredTensor t{bf16_ ? "BF16" : "F32", {kept}, file_, at_};
    if (columns > 0) t.shape.push_back(columns);
    files_.add(name, t);
    at_ += static_cast<uint64_t>(rows * width) * (bf16_ ? 2 : 4);
  }
  void per_layer(int64_t layers, const std::string& name, int64_t rows, int64_t columns) {
    for (int64_t l = 0; l < layers; ++l) add(fmt::format("h.{}.{}", l, name), rows, columns, rows);
  }
  uint64_t end() const { return at_; }

 private:
  TensorFiles& files_;
  size_t file_;
  bool bf16_;
  uint64_t at_ = kHeaderBytes;
};

void stack_all(Stack& s, const ModelSection& m, int64_t padded_vocab) {
  const int64_t n = m.layers, h = m.hidden;
  s.add("wte.weight", m.vocab, h, padded_vocab);
  s.add("wpe.weight", m.max_position, h, m.max_position);
  s.per_layer(n, "ln_1.weight", h, 0);
  s.per_layer(n, "ln_1.bias", h, 0);
  s.per_layer(n, "attn.c_attn.weight", 3 * h, h);
  s.per_layer(n, "attn.c_attn.bias", 3 * h, 0);
  s.per_layer(n, "attn.c_proj.weight", h, h);
  s.per_layer(n, "attn.c_proj.bias", h, 0);
  s.per_layer(n, "ln_2.weight", h, 0);
  s.per_layer(n, "ln_2.bias", h, 0);
  s.per_layer(n, "mlp.c_fc.weight", 4 * h, h);
  s.per_layer(n, "mlp.c_fc.bias", 4 * h, 0);
  s.per_layer(n, "mlp.c_proj.weight", h, 4 * h);
  s.per_layer(n, "mlp.c_proj.bias", h, 0);
  s.add("ln_f.weight", h, 0, h);
  s.add("ln_f.bias", h, 0, h);
}

}  // namespace

bool is_llmc_model(const fs::path& path) {
  bool whole = false;
  const auto header = read_header(path, whole);
  return whole && header[0] == kMagic;
}

ModelSection open_llmc_model(const fs::path& path, TensorFiles& files) {
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
  m.family = Family::gpt;
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
  Stack stack(files, files.add_file(path), version == kBf16);
  stack_all(stack, m, padded_vocab);
  if (const uint64_t bytes = fs::file_size(path); bytes != stack.end())
    fail(fmt::format("has {} bytes, its header needs {}", bytes, stack.end()));
  return m;
}

}  // namespace fp
