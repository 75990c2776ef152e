#include "ranks/job.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <charconv>
#include <chrono>
#include <cmath>
#include <sstream>
#include <thread>

namespace fp::test {

std::string Layout::text() const {
  const std::string stages = pipeline == 1 ? "" : fmt::format("pipeline {} {} ", pipeline, schedule);
  return fmt::format("{}tensor {} sequence {} data {} zero {}{} recompute {}", stages, tensor, sequence, data, zero,
                     megatron ? " megatron_sp" : "", recompute);
}

std::vector<std::string> Layout::settings() const {
  std::vector<std::string> s;
  const auto set = [&](const char* key, const auto& value) {
    s.insert(s.end(), {"--set", fmt::format("{}={}", key, value)});
  };
  set("parallel.tensor", tensor);
  set("parallel.sequence", sequence);
  set("parallel.data", data);
  set("parallel.zero_stage", zero);
  set("parallel.megatron_sp", megatron);
  set("memory.recompute", recompute);
  if (pipeline == 1) return s;
  set("parallel.pipeline.ranks", pipeline);
  std::istringstream words("schedule=" + schedule);
  for (std::string word; words >> word;) s.insert(s.end(), {"--set", "parallel.pipeline." + word});
  return s;
}

RanksWorkspace::RanksWorkspace() {
  for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"}) ::setenv(name, "1", 1);
  ::setenv("OMPI_MCA_plm", "^rsh", 1);  // only this host, so no remote shell is needed
}

std::filesystem::path RanksWorkspace::spec(const std::string& family) const {
  static const std::map<std::string, std::string> models = {
      {"gpt", "family: gpt, layers: 2, hidden: 48, heads: 8"},
      {"llama", "family: llama, layers: 2, hidden: 32, heads: 8, kv_heads: 2, ffn: 54, tied_embeddings: false"},
      {"phi3",
       "family: phi3, layers: 2, hidden: 32, heads: 8, kv_heads: 4, ffn: 40, sliding_window: 7, "
       "tied_embeddings: false"}};
  const std::filesystem::path file = root() / (family + ".yaml");
  std::ofstream(file) << fmt::format(
      "run: {{threads: 1, device: cpu, seed: 11}}\n"
      "model: {{{}, max_position: 32, dropout_embedding: 0.1, dropout_attention: 0.1, dropout_residual: 0.1, "
      "dropout_ffn: 0.1}}\n"
      "data: {{train: [{{path: {}}}], seq_len: 30, mask_documents: true}}\n"
      "optimizer: {{lr: 5e-3, eps: 1e-3}}\n"
      "schedule: {{warmup_steps: 3}}\n"
      "train: {{steps: 12, global_batch: 8, micro_batch: 1, z_loss: 1e-4}}\n"
      "precision: {{compute: fp32}}\n"
      "checkpoint: {{every: 3, keep_last: 0}}\n"
      "eval: {{every: 6, samples: 4}}\n"
      "logging: {{report: false, console_every: 1}}\n",
      models.at(family), data().string());
  return file;
}

std::vector<std::string> RanksWorkspace::train(const std::filesystem::path& spec, const std::string& name,
                                               const Layout& layout, const std::vector<std::string>& more) const {
  std::vector<std::string> a = {"train", spec.string(), "--set", "run.directory=" + run_directory(name).string()};
  for (const auto& some : {layout.settings(), more}) a.insert(a.end(), some.begin(), some.end());
  return layout.ranks() == 1 ? fptrain(a) : mpirun(layout.ranks(), a);
}

namespace {
const std::vector<std::string> kMpirun = {FP_MPIRUN, "--oversubscribe", "--bind-to", "none"};
}

std::vector<std::string> mpirun(const std::vector<RankCommand>& ranks) {
  std::vector<std::string> a = kMpirun;
  for (const RankCommand& rank : ranks) {
    if (&rank != ranks.data()) a.emplace_back(":");
    a.insert(a.end(), {"-np", "1"});
    a.insert(a.end(), rank.options.begin(), rank.options.end());
    a.push_back(rank.program);
    a.insert(a.end(), rank.arguments.begin(), rank.arguments.end());
  }
  return a;
}

std::vector<std::string> mpirun(int ranks, const std::vector<std::string>& arguments) {
  std::vector<std::string> a = kMpirun;
  a.insert(a.end(), {"-np", std::to_string(ranks)});
  const std::vector<std::string> program = fptrain(arguments);
  a.insert(a.end(), program.begin(), program.end());
  return a;
}

std::vector<std::string> spare_others(std::vector<std::string> command) {
  command.insert(std::find(command.begin(), command.end(), FP_MPIRUN) + 1, "--enable-recovery");
  return command;
}

Job::Job(std::vector<std::string> command)
    : process_((command.insert(command.begin(), {"/usr/bin/env", mark()}), command), folder_.path / "output") {}

Job::~Job() {
  for (const pid_t pid : processes()) ::kill(pid, SIGKILL);
}

int Job::wait() {
  // mpirun does not always wait for the ranks that it terminates.
  const auto all_ended = [&] { return !process_.running() && processes().empty(); };
  const auto start = std::chrono::steady_clock::now();
  while (!all_ended() && std::chrono::steady_clock::now() - start < std::chrono::minutes(5))
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return process_.running() ? -1 : process_.wait();
}

void Job::wait_for(const std::string& text) {
  while (process_.running() && !contains(text)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

void Job::wait_for_stopped_rank() {
  const auto stopped = [](pid_t pid) {
    const std::string stat = slurp(std::filesystem::path("/proc") / std::to_string(pid) / "stat");
    return stat.find(") T ") != std::string::npos;
  };
  for (; process_.running(); std::this_thread::sleep_for(std::chrono::milliseconds(5))) {
    const std::vector<pid_t> all = ranks();
    if (std::any_of(all.begin(), all.end(), stopped)) return;
  }
}

std::vector<pid_t> Job::processes() const {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    pid_t pid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc{}) continue;
    if (slurp(entry.path() / "environ").find(mark()) != std::string::npos) found.push_back(pid);
  }
  return found;
}

std::vector<pid_t> Job::ranks() const {
  std::vector<pid_t> found = processes();
  std::erase_if(found, [](pid_t pid) {
    return !slurp(std::filesystem::path("/proc") / std::to_string(pid) / "cmdline").starts_with(FP_EXECUTABLE);
  });
  return found;
}

std::vector<std::string> short_watchdog(const std::filesystem::path& healthy_run,
                                        const std::vector<std::string>& phases) {
  double longest = 0, before = 0;
  std::ifstream in(healthy_run / "metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    const double elapsed = nlohmann::json::parse(line).at("elapsed_s");
    longest = std::max(longest, elapsed - before);
    before = elapsed;
  }
  const double limit = std::max(4.0, 10 * longest);
  std::vector<std::string> settings{"--set", fmt::format("watchdog.heartbeat_s={:.3f}", limit / 5)};
  for (const std::string& phase : phases)
    settings.insert(settings.end(), {"--set", fmt::format("watchdog.{}_s={:.3f}", phase, limit)});
  return settings;
}

void expect_success(const std::vector<std::string>& command) {
  const Outcome o = run(command);
  CAPTURE(o.output);
  REQUIRE(o.code == 0);
}

double worst_loss(const std::filesystem::path& whole, const std::filesystem::path& resumed, int steps) {
  const auto a = history(whole), b = history(resumed);
  REQUIRE(a.size() == static_cast<size_t>(steps));
  REQUIRE(b.rbegin()->first == steps);
  double worst = 0;
  for (const auto& [step, values] : b) {
    const double difference = std::abs(values.first - a.at(step).first) / a.at(step).first;
    worst = std::isfinite(difference) ? std::max(worst, difference) : HUGE_VAL;
  }
  return worst;
}

}  // namespace fp::test
