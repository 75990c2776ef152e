// fptrain bench ops: measures each op at the shapes of a model's training step.
#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/parallel.h"
#include "bench.h"
#include "device.h"
#include "op_benchmark.h"

namespace fp {
namespace {

struct OpsBenchArguments {
  BenchModel model;
  std::string device = "auto";
  int64_t parameters = 124'475'904;  // elements of adamw and sum_squares
  int repeats = 5, threads = 0;
  bool json = false;
};

struct OpsReport {
  std::string title, device;
  std::vector<OpRow> rows;
  std::vector<std::string> notes;
  double copy = 0, product = 0;  // bytes/s of the large copy, FLOP/s of the fastest product
  PeakRate peak;
};

// Returns the rate of an op as a fraction of its reference rate.
double fraction_of_reference(const OpsReport& r, const OpRow& row) {
  return row.rate() / (row.bound == Bound::bytes ? r.copy : r.peak.flops);
}

// Measures each implementation of attention, on a device of its own: FPTRAIN_ATTENTION is read when a device opens.
void compare_attention(const OpsBenchArguments& a, const OpSizes& sizes, DType compute, OpsReport& r) {
  constexpr const char* kVariable = "FPTRAIN_ATTENTION";
  if (const char* only = std::getenv(kVariable)) {
    r.notes.push_back(fmt::format("{}={}: implementations of attention were not compared", kVariable, only));
    return;
  }
  for (const std::string name : {"cudnn", "flash", "simt"}) {
    ::setenv(kVariable, name.c_str(), 1);
    const auto ops = open_device(device_named(a.device), a.threads);
    for (const int64_t length : {a.model.seq_len, 4 * a.model.seq_len}) {
      OpBenchmark b(*ops, compute, a.repeats);
      try {
        b.attention(sizes, length, " [" + name + "]");
      } catch (const ConfigError& refused) {
        r.notes.push_back(refused.what());
      }
      r.rows.insert(r.rows.end(), b.rows.begin(), b.rows.end());
    }
    ::unsetenv(kVariable);
  }
}

OpsReport measure_ops(const OpsBenchArguments& a) {
  const RunSpec spec = bench_spec(a.model);
  const DType compute = spec.precision.compute;
  const OpSizes sizes(spec.model, a.model.batch * a.model.seq_len);
  OpsReport r;
  {
    const auto ops = open_device(device_named(a.device), a.threads);
    r.device = ops->name();
    r.peak = peak_rate(*ops, compute);
    OpBenchmark b(*ops, compute, a.repeats);
    log::info("measuring products");
    b.products(sizes);
    b.fused_products(sizes);
    b.copies();  // not first: an idle GPU takes a while to reach its full clocks
    for (const int64_t length : {a.model.seq_len, 4 * a.model.seq_len, 16 * a.model.seq_len}) {
      log::info("measuring attention over {} tokens", length);
      b.attention(sizes, length, "");
    }
    log::info("measuring other ops");
    b.norms(sizes);
    b.token_local(sizes);
    b.embeddings(sizes);
    b.heads(sizes);
    b.loss(sizes);
    b.optimizer(a.parameters);
    r.rows = std::move(b.rows);
  }
  if (r.device == "cuda") compare_attention(a, sizes, compute, r);
  r.title = fmt::format("{}, {}, {}, {} threads", spec.model.name, a.model.precision, r.device, max_threads());
  for (const OpRow& row : r.rows) {
    if (row.op == "copy") r.copy = row.rate();
    if (row.op.starts_with("linear")) r.product = std::max(r.product, row.rate());
  }
  return r;
}

void print(const OpsReport& r) {
  fmt::print("{}\n\n{:<32}{:<36}{:>10}{:>20}{:>18}{:>7}\n", r.title, "op", "shape", "ms", "moved", "rate", "share");
  for (const OpRow& row : r.rows) {
    const bool bytes = row.bound == Bound::bytes;
    const std::string amount = fmt::format("{:.1f} {}", row.amount * 1e-6, bytes ? "MB" : "MFLOP");
    const std::string rate = fmt::format("{:.1f} {}", row.rate() * 1e-9, bytes ? "GB/s" : "GFLOP/s");
    fmt::print("{:<32}{:<36}{:>10.3f}{:>20}{:>18}{:>6.0f}%\n", row.op, row.shape, row.seconds * 1e3, amount, rate,
               100 * fraction_of_reference(r, row));
  }
  fmt::print("\nshare: of the copy's {:.1f} GB/s (bytes read and written), or of {:.1f} GFLOP/s ({})\n", r.copy * 1e-9,
             r.peak.flops * 1e-9, r.peak.source);
  for (const std::string& note : r.notes) fmt::print("{}\n", note);
}

void print_ops_json(const OpsReport& r, const OpsBenchArguments& a) {
  nlohmann::json list = nlohmann::json::array();
  for (const OpRow& row : r.rows) {
    const bool bytes = row.bound == Bound::bytes;
    list.push_back({{"op", row.op},
                    {"shape", row.shape},
                    {"ms", row.seconds * 1e3},
                    {bytes ? "bytes" : "flops", row.amount},
                    {"rate", row.rate() * 1e-9},
                    {"unit", bytes ? "GB/s" : "GFLOP/s"},
                    {"share", fraction_of_reference(r, row)}});
  }
  const nlohmann::json all = {{"model", a.model.preset},
                              {"precision", a.model.precision},
                              {"batch", a.model.batch},
                              {"seq_len", a.model.seq_len},
                              {"threads", max_threads()},
                              {"device", r.device},
                              {"copy_gb_per_s", r.copy * 1e-9},
                              {"product_gflops_per_s", r.product * 1e-9},
                              {"peak_gflops_per_s", r.peak.flops * 1e-9},
                              {"notes", r.notes},
                              {"ops", list}};
  fmt::print("{}\n", all.dump());
}

}  // namespace

void add_bench_ops(cli::App& bench) {
  const auto a = std::make_shared<OpsBenchArguments>();
  cli::App* command = bench.add_subcommand("ops", "Time every op at the shapes of a model's training step");
  add_model_options(*command, a->model);
  command->add_option("--parameters", a->parameters, "number of elements for the ops of the optimizer")
      ->capture_default_str()
      ->check(cli::PositiveNumber);
  command->add_option("--repeats", a->repeats, "measurements of each op, of which the median is reported")
      ->capture_default_str()
      ->check(cli::PositiveNumber);
  command->add_option("--threads", a->threads, "0: all cores")->check(cli::Range(0, 4096));
  command->add_option("--device", a->device)->capture_default_str()->check(cli::IsMember(kDevices));
  command->add_flag("--json", a->json, "one JSON object");
  command->callback([a] {
    const OpsReport r = measure_ops(*a);
    if (a->json)
      print_ops_json(r, *a);
    else
      print(r);
  });
}

}  // namespace fp
