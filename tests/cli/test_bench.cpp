// fptrain bench: reports for a tiny model.
#include <catch2/catch.hpp>
#include <regex>
#include <set>

#include "cli/workspace.h"
#include "config/cluster/cluster.h"
#include "io/filesystem.h"

using namespace fp::test;

namespace {

nlohmann::json bench(const std::string& what, const std::vector<std::string>& more) {
  std::vector<std::string> command = {"bench",
                                      what,
                                      "--json",
                                      "--device",
                                      "cpu",
                                      "--preset",
                                      "gpt-nano",
                                      "--batch",
                                      "1",
                                      "--seq-len",
                                      "16",
                                      "--threads",
                                      "1",
                                      "--set",
                                      "model.layers=1",
                                      "--set",
                                      "model.vocab=100",
                                      "--set",
                                      "model.hidden=32",
                                      "--set",
                                      "model.heads=2"};
  command.insert(command.end(), more.begin(), more.end());
  const TemporaryFolder folder;
  const Outcome o = run(fptrain(command));
  INFO(o.output);
  REQUIRE(o.code == 0);
  return nlohmann::json::parse(o.output.substr(o.output.find('{')));
}

}  // namespace

TEST_CASE("bench ops measures every op of the interface") {
  const nlohmann::json report = bench("ops", {"--repeats", "1", "--parameters", "1000"});
  std::vector<std::string> measured;
  for (const auto& row : report.at("ops")) {
    INFO(row.dump());
    CHECK(row.at("ms") > 0.0);
    CHECK(row.at("share") > 0.0);
    measured.push_back(row.at("op"));
  }
  CHECK(report.at("copy_gb_per_s") > 0.0);
  const std::filesystem::path base = std::filesystem::path(FP_SOURCE_DIR) / "lib/base";
  const std::string list = slurp(base / "op_list.h") + slurp(base / "optimizer_list.h");
  const std::regex op(R"((?:\n |\(X\)) X\(\w+, (\w+)\))");
  int ops = 0;
  for (std::sregex_iterator it(list.begin(), list.end(), op), end; it != end; ++it) {
    const std::string name = (*it)[1];
    INFO(name);
    CHECK(std::ranges::any_of(measured, [&](const std::string& m) { return m == name || m.starts_with(name + " "); }));
    ++ops;
  }
  CHECK(ops > 35);
}

TEST_CASE("bench offload times updates by their share on the device, and a synchronous one") {
  const nlohmann::json report = bench("offload", {"--cluster", "laptop", "--shares", "0,0.5", "--link-gb-per-s", "1",
                                                  "--host-update-gb-per-s", "1", "--steps", "1", "--warmup", "0"});
  const nlohmann::json& rows = report.at("rows");
  REQUIRE(rows.size() >= 3);
  CHECK(rows[0].at("update") == "synchronous");
  CHECK(rows[0].at("predicted_ms").is_null());
  const auto bytes = [](const nlohmann::json& row, int lane) {
    return row.at("lanes")[lane].at("bytes").get<int64_t>();
  };
  for (const nlohmann::json& row : rows) {
    CAPTURE(row.dump());
    CHECK(row.at("step_ms") >= row.at("update_ms"));
    if (&row != &rows[0]) CHECK(row.at("predicted_ms") > 0);
  }
  // With share 0 gradients have left in the backward pass, and weights come back; the synchronous update sends both.
  CHECK(rows[1].at("update") == "share 0");
  CHECK(bytes(rows[1], 0) == 0);
  CHECK(bytes(rows[0], 0) > 0);
  CHECK(bytes(rows[0], 1) == bytes(rows[1], 1));
  CHECK(bytes(rows[0], 2) == bytes(rows[1], 2));
}

TEST_CASE("bench offload refuses what it cannot time") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::vector<std::string>& more, const std::string& why) {
    std::vector<std::string> command = {"bench", "offload", "--device", "cpu", "--preset", "gpt-nano"};
    command.insert(command.end(), more.begin(), more.end());
    const Outcome o = run(fptrain(command));
    INFO(o.output);
    CHECK(o.code == 2);
    CHECK_THAT(o.output, Catch::Contains(why));
  };
  refused({"--cluster", "laptopp"}, "there is no cluster description 'laptopp'");
  refused({"--cluster", "laptop", "--set", "optimizer.kind=muon"}, "must be 1 with optimizer.kind muon");
  refused({"--shares", "1.5"}, "--shares");
}

TEST_CASE("bench train reports MFU with its peak and memory with its prediction") {
  const nlohmann::json report = bench("train", {"--steps", "2", "--warmup", "0"});
  CHECK(report.at("device") == "cpu");
  CHECK(report.at("peak_from") != "data sheet");
  const double flops = report.at("model_gflops_per_s"), peak = report.at("peak_gflops_per_s");
  CHECK(report.at("mfu").get<double>() == Approx(flops / peak));
  CHECK(report.at("predicted_bytes") > 0);
  CHECK(report.at("peak_bytes") > 0);
}

TEST_CASE("bench schedule runs every kind and compares it with its simulation") {
  const Outcome o = run(fptrain({"bench", "schedule", "--stages", "2", "--unit-ms", "1", "--repeat", "1", "--json"}));
  INFO(o.output);
  REQUIRE(o.code == 0);
  const nlohmann::json report = nlohmann::json::parse(o.output);
  CHECK(report.at("ranks_are") == "threads");
  std::set<std::string> names;
  for (const auto& row : report.at("schedules")) {
    INFO(row.dump());
    names.insert(row.at("schedule"));
    CHECK(row.at("micro_batches") == 4);
    // Twelve passes of two units each; no rank sleeps less than requested.
    const double simulated = row.at("simulated_units"), executed = row.at("executed_units");
    CHECK(row.at("simulated_bubble").get<double>() == Approx(1 - 24 / simulated));
    CHECK(row.at("executed_bubble").get<double>() == Approx(1 - 24 / executed));
    CHECK(executed >= 24);
    CHECK(row.at("late_us_a_pass") >= 0.0);
    CHECK(row.at("passes_a_rank") >= 8);
  }
  for (const char* name : {"gpipe", "1f1b", "zb-v", "bitpipe", "wave", "1f1b+W", "chimera+W", "bitpipe+W"})
    CHECK(names.contains(name));
  CHECK(names.size() == 17);
}

TEST_CASE("bench schedule prints a table and draws pictures") {
  const TemporaryFolder folder;
  const Outcome o = run(fptrain({"bench", "schedule", "--kind", "1f1b", "--kind", "bitpipe", "--w-pass", "--stages",
                                 "2,4", "--microbatches", "4", "--unit-ms", "1", "--svg", folder.path.string()}));
  INFO(o.output);
  REQUIRE(o.code == 0);
  CHECK(std::regex_search(o.output, std::regex("1f1b\\+W +4 +4 +30\\.0 ")));
  CHECK(std::regex_search(o.output, std::regex("bitpipe\\+W +4 +4 +25\\.0 ")));
  const std::string bubbles = slurp(folder.path / "bubbles.svg"), run_of_4 = slurp(folder.path / "bitpipe+W-4.svg");
  for (const char* text : {">2 ranks<", ">4 ranks<", ">1f1b+W<", ">bitpipe+W<"})
    CHECK(bubbles.find(text) != bubbles.npos);
  CHECK(run_of_4.find("simulated: 25.0 units") != run_of_4.npos);
  CHECK(run_of_4.find("executed: ") != run_of_4.npos);
  CHECK(std::filesystem::exists(folder.path / "1f1b+W-2.svg"));
}

TEST_CASE("bench schedule refuses requests that a kind does not support") {
  const auto refused = [](std::vector<std::string> arguments, const std::string& because) {
    arguments.insert(arguments.begin(), {"bench", "schedule"});
    const Outcome o = run(fptrain(arguments));
    INFO(o.output);
    CHECK(o.code == 2);
    CHECK(o.output.find(because) != std::string::npos);
  };
  refused({"--kind", "nonsense"}, "there is no schedule 'nonsense'");
  refused({"--kind", "chimera", "--stages", "3"}, "use an even number");
  refused({"--kind", "zb-h1", "--w-pass"}, "leave the W pass out");
  refused({"--w-pass"}, "--kind");
}

TEST_CASE("bench io reports the speed of a folder and the cached fraction") {
  const TemporaryFolder folder;
  const Outcome o = run(fptrain({"bench", "io", "--mib", "4", "--checkpoint-mib", "16", "--device", "cpu", "--json",
                                 "--directory", folder.path.string()}));
  INFO(o.output);
  REQUIRE(o.code == 0);
  const nlohmann::json report = nlohmann::json::parse(o.output);
  CHECK(report.at("bytes") == 4 << 20);
  for (const char* rate : {"write_gb_per_s", "read_gb_per_s"}) CHECK(report.at(rate) > 0.0);
  const nlohmann::json& checkpoint = report.at("checkpoint");
  CHECK(std::abs(checkpoint.at("bytes").get<double>() / (16 << 20) - 1) < 0.3);
  for (const char* rate : {"save_gb_per_s", "load_gb_per_s", "save_of_plain_write", "load_of_plain_read"})
    CHECK(checkpoint.at(rate) > 0.0);
  for (const nlohmann::json& other : checkpoint.at("other_meshes")) CHECK(other.at("of_same_mesh") > 0.0);
  CHECK(checkpoint.at("other_meshes").size() > 1);
  CHECK(std::filesystem::is_empty(folder.path));
}

TEST_CASE("a missing folder is a usage error of a benchmark") {
  const TemporaryFolder folder;
  const std::string missing = (folder.path / "missing").string();
  for (const char* what : {"io", "all"}) {
    const Outcome o = run(fptrain({"bench", what, "--directory", missing}));
    INFO(o.output);
    CHECK(o.code == 2);
    CHECK(o.output.find(missing + ": cannot use the folder of --directory: No such file or directory") !=
          o.output.npos);
    CHECK(o.output.find("measur") == o.output.npos);
  }
  CHECK(std::filesystem::is_empty(folder.path));
}

TEST_CASE("bench comm needs several ranks") {
  const Outcome o = run(fptrain({"bench", "comm"}));
  CHECK(o.code == 2);
  CHECK(o.output.find("mpirun -np N fptrain bench comm") != o.output.npos);
}

TEST_CASE("bench all writes a cluster description, keeps other profiles and refuses other machines", "[slow]") {
  const TemporaryFolder folder;
  const std::string file = (folder.path / "cluster.yaml").string();
  const std::vector<std::string> command = {
      "bench", "all", "--quick", "--device", "cpu", "--directory", folder.path.string(), "--write-cluster", file};
  const Outcome first = run(fptrain(command));
  INFO(first.output);
  REQUIRE(first.code == 0);
  CHECK(first.output.find("typical error") != first.output.npos);
  fp::ClusterSpec cluster = fp::load_cluster(file);
  CHECK(cluster.device == fp::ClusterDevice::cpu);
  CHECK_FALSE(cluster.overlaps);
  REQUIRE(cluster.profiles.size() == 1);
  CHECK(cluster.profiles[0].ranks == 1);
  CHECK(cluster.memory_gib > 0);
  CHECK(cluster.disk_gb_per_s > 0);

  fp::NodeProfile of_three = cluster.profiles[0];
  of_three.ranks = 3;
  of_three.peak_tflops_bf16 = 0.125;
  of_three.links = {{"ranks", "any", 1, 1}};
  cluster.ranks_per_node = std::max<int64_t>(cluster.ranks_per_node, 3);
  cluster.profiles[0].peak_tflops_bf16 = 1e-9;
  cluster.profiles.push_back(of_three);
  fp::write_file_atomically(file, dump(cluster));
  REQUIRE(run(fptrain(command)).code == 0);
  const fp::ClusterSpec merged = fp::load_cluster(file);
  REQUIRE(merged.profiles.size() == 2);
  CHECK(merged.profiles[0].peak_tflops_bf16 > 1e-6);
  CHECK(merged.profiles[1] == of_three);

  cluster.name = "elsewhere";
  fp::write_file_atomically(file, dump(cluster));
  const Outcome refused = run(fptrain(command));
  CHECK(refused.code == 2);
  CHECK(refused.output.find("is of elsewhere (cpu)") != refused.output.npos);
  CHECK(fp::load_cluster(file) == cluster);
}
