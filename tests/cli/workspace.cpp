#include "cli/workspace.h"

#include <algorithm>

namespace fp::test {
namespace {

// Shapes are deliberately odd, and every dropout is on.
const std::map<std::string, std::string>& models() {
  static const std::map<std::string, std::string> m = {
      {"gpt", "family: gpt, layers: 2, hidden: 24, heads: 3"},
      {"llama",
       "family: llama, layers: 2, hidden: 24, heads: 4, kv_heads: 2, head_dim: 6, ffn: 40, tied_embeddings: false"},
      {"phi3",
       "family: phi3, layers: 2, hidden: 24, heads: 2, kv_heads: 1, head_dim: 12, ffn: 40, sliding_window: 7, "
       "tied_embeddings: false"},
      {"phi3small",
       "family: phi3small, layers: 2, hidden: 24, heads: 4, kv_heads: 2, head_dim: 6, ffn: 40, "
       "blocksparse: {block: 4, local_blocks: 2, vertical_stride: 3, dense_every: 2}, mup: {embedding: 10, width: 8, "
       "attention: 1}"},
      {"qwen3", "family: qwen3, layers: 2, hidden: 24, heads: 4, kv_heads: 2, head_dim: 8, ffn: 40"}};
  return m;
}

}  // namespace

Workspace::Workspace() {
  std::ofstream text(root() / "text.txt");
  for (int i = 0; i < 400; ++i)
    text << "Verse " << i << ": and the number " << i * i % 97 << " begat the number " << i * 7 % 31 << ".\n";
  text.close();
  const Outcome o = run(fptrain({"data", "prepare", "--tokenizer", "bytes", "--documents", "line", "--out",
                                 data().string(), (root() / "text.txt").string()}));
  if (o.code != 0) throw std::runtime_error("data prepare failed: " + o.output);
}

std::filesystem::path Workspace::spec(const std::string& family, const std::string& precision) const {
  const std::filesystem::path file = root() / (family + "-" + precision + ".yaml");
  std::ofstream(file) << fmt::format(
      "run: {{threads: 1, device: cpu}}\n"
      "model: {{{}, max_position: 32, dropout_embedding: 0.1, dropout_attention: 0.1, dropout_residual: 0.1, "
      "dropout_ffn: 0.1}}\n"
      "data: {{train: [{{path: {}}}], seq_len: 32, mask_documents: true}}\n"
      "optimizer: {{lr: 5e-3}}\n"
      "schedule: {{warmup_steps: 3}}\n"
      "train: {{steps: 20, global_batch: 4, micro_batch: 2, z_loss: 1e-4}}\n"
      "precision: {{compute: {}}}\n"
      "checkpoint: {{every: 10, keep_last: 0}}\n"
      "eval: {{every: 10, samples: 4}}\n"
      "logging: {{report: false}}\n",
      models().at(family), data().string(), precision);
  return file;
}

std::vector<std::string> Workspace::train(const std::filesystem::path& spec, const std::string& name,
                                          const std::vector<std::string>& more) const {
  std::vector<std::string> a =
      fptrain({"train", spec.string(), "--set", "run.directory=" + run_directory(name).string()});
  a.insert(a.end(), more.begin(), more.end());
  return a;
}

std::map<int, std::pair<double, double>> history(const std::filesystem::path& run_directory) {
  std::map<int, std::pair<double, double>> h;
  std::ifstream in(run_directory / "metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    const auto m = nlohmann::json::parse(line);
    h[m.at("step")] = {m.at("loss"), m.at("grad_norm")};
  }
  return h;
}

std::vector<std::string> checkpoints(const std::filesystem::path& run_directory) {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& e : std::filesystem::directory_iterator(run_directory / "checkpoints", none))
    if (e.path().filename().string().starts_with("step-")) names.push_back(e.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

nlohmann::json fingerprint(const std::filesystem::path& checkpoint) {
  const auto m = nlohmann::json::parse(slurp(checkpoint / "manifest.json"));
  return {{"parameters", m.at("parameters")},
          {"step", m.at("step")},
          {"consumed_samples", m.at("consumed_samples")},
          {"last_loss", m.at("last_loss")}};
}

void damage_tensors(const std::filesystem::path& checkpoint, int rank) {
  const auto file = checkpoint / fmt::format("rank-{:05d}.h5", rank);
  const auto middle = static_cast<std::streamoff>(std::filesystem::file_size(file) / 2);
  std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
  f.seekg(middle);
  const char c = static_cast<char>(f.get() ^ 0x10);
  f.seekp(middle);
  f.put(c);
}

}  // namespace fp::test
