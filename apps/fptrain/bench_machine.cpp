// fptrain bench comm, io and all: measure communication, the disk, and everything in a cluster description.
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "bench.h"
#include "bench/checkpoint_benchmark.h"
#include "bench/disk_benchmark.h"
#include "device.h"
#include "io/filesystem.h"
#include "io/writable_folder.h"
#include "launch/placement.h"
#include "measure_machine.h"
#include "ranks.h"

namespace fp {
namespace {

struct MachineBenchArguments {
  std::string device = "auto", directory = ".", file;
  int threads = 0;
  int64_t mib = 512, checkpoint_mib = 384;
  bool quick = false, json = false;
};

// The ranks of a benchmark with their devices.
class Bench {
 public:
  explicit Bench(const MachineBenchArguments& a) {
    spec_.run.device = device_named(a.device);
    spec_.run.threads = a.threads;
    const int ranks = read_environment().size;
    spec_.parallel.data = ranks;
    ranks_.start(Mesh(1, ranks, 1, 1, ranks), spec_.watchdog);
  }
  template <class Work>
  ExitCode run(Work work) {
    return ranks_.run([&] {
      ranks_.require_same_command_line();
      work(ranks_.open_device(spec_), ranks_.world());
      return ExitCode::ok;
    });
  }
  std::shared_ptr<Group> all_ranks() { return ranks_.world().group("bench", ranks_.mesh().world()); }

 private:
  RunSpec spec_;
  Ranks ranks_;
};

// ---- comm -----------------------------------------------------------------------------------------------------------

void print(const std::vector<LinkSample>& samples) {
  fmt::print("{:<8}{:<16}{:>6}{:>14}{:>14}{:>12}{:>10}\n", "between", "kind", "ranks", "bytes", "sent by each", "us",
             "GB/s");
  for (const LinkSample& s : samples)
    fmt::print("{:<8}{:<16}{:>6}{:>14}{:>14}{:>12.1f}{:>10.2f}\n", s.between, s.kind, s.ranks, s.bytes, s.sent,
               s.seconds * 1e6, static_cast<double>(s.sent) / s.seconds * 1e-9);
}

void print(const std::vector<LinkRates>& links) {
  fmt::print("# {:<8}{:<16}{:>12}{:>10}\n", "between", "kind", "latency us", "GB/s");
  for (const LinkRates& l : links)
    fmt::print("# {:<8}{:<16}{:>12.1f}{:>10.2f}\n", l.between, l.kind, l.latency_us, l.gb_per_s);
}

nlohmann::json to_json(const std::vector<LinkSample>& samples) {
  nlohmann::json rows = nlohmann::json::array();
  for (const LinkSample& s : samples)
    rows.push_back({{"between", s.between},
                    {"kind", s.kind},
                    {"ranks", s.ranks},
                    {"bytes", s.bytes},
                    {"sent", s.sent},
                    {"us", s.seconds * 1e6},
                    {"gb_per_s", static_cast<double>(s.sent) / s.seconds * 1e-9}});
  return rows;
}

ExitCode bench_comm(const MachineBenchArguments& a) {
  if (read_environment().size == 1)
    throw ConfigError(
        "fptrain bench comm measures what ranks send to each other: start it as mpirun -np N fptrain "
        "bench comm");
  Bench bench(a);
  return bench.run([&](Ops& ops, World& world) {
    const auto samples = measure_links(world, ops, bench.all_ranks()->all_gather(host_name()), a.quick);
    if (world.rank() != 0) return;
    if (a.json) return fmt::print("{}\n", nlohmann::json{{"links", to_json(samples)}}.dump());
    print(samples);
    fmt::print("\n# rates for a cluster description: seconds = latency ceil(log2 ranks) + sent / rate\n");
    print(fit_links(samples));
  });
}

// ---- io -------------------------------------------------------------------------------------------------------------

nlohmann::json to_json(const CheckpointRates& r) {
  nlohmann::json others = nlohmann::json::array();
  for (const auto& o : r.others)
    others.push_back({{"mesh", o.mesh}, {"seconds", o.seconds}, {"of_same_mesh", o.of_same_mesh}});
  const double gb = static_cast<double>(r.bytes) * 1e-9;
  return {{"bytes", r.bytes},
          {"mesh", r.mesh},
          {"plain_write_gb_per_s", gb / r.save.plain_seconds},
          {"save_gb_per_s", gb / r.save.seconds},
          {"save_of_plain_write", r.save.of_plain},
          {"plain_read_gb_per_s", gb / r.load.plain_seconds},
          {"load_gb_per_s", gb / r.load.seconds},
          {"load_of_plain_read", r.load.of_plain},
          {"other_meshes", others}};
}

void print(const CheckpointRates& r) {
  const double gb = static_cast<double>(r.bytes) * 1e-9;
  const auto line = [&](const std::string& what, double seconds, const std::string& note) {
    fmt::print("  {:<42}{:>8.3f} GB/s{}\n", what, gb / seconds, note);
  };
  fmt::print("a checkpoint of {:.0f} MiB, medians of five rounds\n", static_cast<double>(r.bytes) / (1 << 20));
  line("plain write, until fsync is done", r.save.plain_seconds, "");
  line("save on " + r.mesh, r.save.seconds, fmt::format("  {:.0f}% of plain", 100 * r.save.of_plain));
  line("plain read", r.load.plain_seconds, "");
  line("load on " + r.mesh, r.load.seconds, fmt::format("  {:.0f}% of plain", 100 * r.load.of_plain));
  for (const auto& o : r.others)
    line("load on " + o.mesh, o.seconds, fmt::format("  {:.2f} x the time of the same mesh", o.of_same_mesh));
}

void require_directory(const MachineBenchArguments& a) {
  require_writable_folder(a.directory, "the folder of --directory");
}

void bench_io(const MachineBenchArguments& a) {
  require_directory(a);
  const DiskRates r = benchmark_disk(a.directory, a.mib << 20);
  std::optional<CheckpointRates> c;
  if (a.checkpoint_mib > 0)
    c = benchmark_checkpoint(a.directory, a.checkpoint_mib << 20, *open_device(device_named(a.device), a.threads));
  if (a.json) {
    nlohmann::json j = {{"bytes", r.bytes},
                        {"write_gb_per_s", r.write_bytes_per_s * 1e-9},
                        {"read_gb_per_s", r.read_bytes_per_s * 1e-9},
                        {"cached", r.cached}};
    if (c) j["checkpoint"] = to_json(*c);
    return fmt::print("{}\n", j.dump());
  }
  fmt::print("{} MiB in {}\n  write, until fsync is done  {:>8.3f} GB/s\n  read                        {:>8.3f} GB/s\n",
             a.mib, a.directory, r.write_bytes_per_s * 1e-9, r.read_bytes_per_s * 1e-9);
  if (r.cached > 0.01)
    fmt::print(
        "{:.0f}% of the file was still in the page cache when it was read, so the read rate is not that of the disk\n",
        100 * r.cached);
  if (c) print(*c);
}

// ---- all ------------------------------------------------------------------------------------------------------------

void print(const DeviceRates& r) {
  fmt::print("# {:<26}{:<8}{:>8}{:>16}{:>18}\n", "op", "compute", "shapes", "typical error", "of all its time");
  for (const FitError& e : r.errors)
    fmt::print("# {:<26}{:<8}{:>8}{:>15.1f}%{:>17.1f}%\n", e.op, e.compute, e.samples, 100 * e.typical,
               100 * e.of_seconds);
  fmt::print("#\n# {:<44}{:>14}{:>14}{:>10}\n", "step of", "measured ms", "predicted ms", "error");
  for (const CheckedStep& s : r.steps)
    fmt::print("# {:<44}{:>14.2f}{:>14.2f}{:>9.1f}%{}\n", s.model, s.seconds * 1e3, s.predicted * 1e3,
               100 * (s.predicted / s.seconds - 1), s.fitted ? "" : "  not part of the fit");
}

ExitCode bench_all(const MachineBenchArguments& a) {
  Bench bench(a);
  return bench.run([&](Ops& ops, World& world) {
    if (world.rank() == 0) require_directory(a);
    if (world.rank() == 0) require_output_file(a.file, "--write-cluster");
    ClusterSpec before;
    if (world.rank() == 0 && !a.file.empty() && std::filesystem::exists(a.file)) {
      before = load_cluster(a.file);
      require_same_machine(before, host_name(), ops.device_memory() ? ClusterDevice::cuda : ClusterDevice::cpu);
    }
    auto [cluster, rates, links] = measure_machine(ops, world, *bench.all_ranks(), a.quick);
    if (world.rank() != 0) return;
    log::info("measuring the disk");
    cluster.disk_gb_per_s = benchmark_disk(a.directory, int64_t{a.quick ? 32 : 256} << 20).write_bytes_per_s * 1e-9;
    if (!before.name.empty()) cluster = with_earlier_profiles(std::move(cluster), before);
    parse_cluster(dump(cluster), "cluster " + cluster.name);  // what is written must be readable
    print(rates);
    if (!links.empty()) print(fit_links(links));
    if (a.file.empty()) return fmt::print("{}", dump(cluster));
    output_file(a.file, "--write-cluster", dump(cluster));
    fmt::print("# written: {}\n", a.file);
  });
}

void add_device_options(cli::App& command, MachineBenchArguments& a) {
  command.add_option("--device", a.device)->capture_default_str()->check(cli::IsMember({"auto", "cpu", "cuda"}));
  command.add_option("--threads", a.threads, "threads per rank; 0: an even part of the cores")
      ->check(cli::Range(0, 4096));
  command.add_flag("--quick", a.quick, "measure for some seconds instead of some minutes, less exactly");
}

void add_directory(cli::App& command, MachineBenchArguments& a) {
  command.add_option("--directory", a.directory, "folder on the disk to measure")->capture_default_str();
}

}  // namespace

void add_bench_io(cli::App& bench) {
  const auto a = std::make_shared<MachineBenchArguments>();
  cli::App* command =
      bench.add_subcommand("io", "Time writing and reading a large file, and saving and loading checkpoints");
  add_directory(*command, *a);
  command->add_option("--mib", a->mib, "size of the file")->capture_default_str()->check(cli::PositiveNumber);
  command
      ->add_option("--checkpoint-mib", a->checkpoint_mib,
                   "size of the checkpoint that is saved, and loaded on several meshes; 0: none")
      ->capture_default_str()
      ->check(cli::NonNegativeNumber);
  command->add_option("--device", a->device, "device that holds the state of the checkpoint")
      ->capture_default_str()
      ->check(cli::IsMember({"auto", "cpu", "cuda"}));
  command->add_option("--threads", a->threads, "0: all cores")->check(cli::Range(0, 4096));
  command->add_flag("--json", a->json, "one JSON object");
  command->callback([a] { bench_io(*a); });
}

void add_bench_machine(cli::App& bench, CommandResult& result) {
  const auto a = std::make_shared<MachineBenchArguments>();
  cli::App* comm = bench.add_subcommand("comm", "Time every kind of communication between the ranks of mpirun");
  add_device_options(*comm, *a);
  comm->add_flag("--json", a->json, "one JSON object");
  comm->callback([a, &result] { result.code = bench_comm(*a); });

  cli::App* all = bench.add_subcommand("all",
                                       "Measure everything in a cluster description (docs/cluster-spec.md). Under "
                                       "mpirun, measures all ranks at the same time");
  add_device_options(*all, *a);
  add_directory(*all, *a);
  all->add_option("--write-cluster", a->file,
                  "write the description to this file; if it exists and is of this machine, its profiles for other "
                  "numbers of ranks are kept. Default: print it");
  all->callback([a, &result] { result.code = bench_all(*a); });
}

}  // namespace fp
