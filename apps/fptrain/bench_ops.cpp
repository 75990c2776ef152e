// fptrain bench ops: what each op of a model achieves on this machine, at the shapes of one of its training steps.
#include <algorithm>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/parallel.h"
#include "bench.h"
#include "device.h"
#include "tensor/arena.h"
#include "train/step_benchmark.h"

namespace fp {
namespace {

struct Arguments {
  BenchModel model;
  std::string device = "auto";
  int64_t parameters = 124'475'904;  // of adamw and sum_squares
  int repeats = 5, threads = 0;
  bool json = false;
};

struct Row {
  std::string op, shape;
  double ms = 0, rate = 0;
  const char* unit = "";
};

// Sizes of the model that ops see.
struct Sizes {
  int64_t tokens, hidden, heads, kv_heads, head_dim, ffn, vocab;
  ActivationSpec activation;

  Sizes(const ModelSection& m, int64_t tokens_)
      : tokens(tokens_),
        hidden(m.hidden),
        heads(m.heads),
        kv_heads(m.kv_heads ? m.kv_heads : m.heads),
        head_dim(m.head_dim ? m.head_dim : m.hidden / m.heads),
        ffn(m.ffn ? m.ffn : 4 * m.hidden),
        vocab((m.vocab + m.pad_vocab_to - 1) / m.pad_vocab_to * m.pad_vocab_to) {
    if (m.family == Family::llama) activation.kind = Activation::swiglu;
    if (m.family == Family::phi3) activation.kind = m.blocksparse.block > 0 ? Activation::gegelu : Activation::swiglu;
  }
  HeadLayout layout() const { return {.heads = heads, .kv_heads = kv_heads, .head_dim = head_dim}; }
};

class OpsBenchmark {
 public:
  OpsBenchmark(Ops& ops, DType compute, int repeats) : ops_(ops), t_(compute), repeats_(repeats) {}

  // Memory of one op's operands, given back with drop(): values of standard deviation 0.5 or so, ids below `top`.
  Tensor tensor(DType dtype, const Shape& shape, int64_t top = 1) {
    const size_t bytes = static_cast<size_t>(shape.elements()) * size_of(dtype) + 512;
    arenas_.push_back(std::make_unique<Arena>(ops_.allocate(bytes), bytes));
    held_.push_back(arenas_.back()->alloc(dtype, shape));
    const Tensor t = *held_.back();
    std::vector<std::byte> host(t.bytes());
    uint64_t state = 1;
    for (int64_t i = 0; i < t.elements(); ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const double uniform = static_cast<double>(state >> 33) * 0x1p-31;
      std::byte* at = host.data() + static_cast<size_t>(i) * size_of(dtype);
      if (dtype == DType::i32)
        *reinterpret_cast<int32_t*>(at) = static_cast<int32_t>(uniform * static_cast<double>(top));
      if (dtype == DType::f32) *reinterpret_cast<float*>(at) = static_cast<float>(uniform * 2 - 1);
      if (dtype == DType::bf16) *reinterpret_cast<bf16*>(at) = bf16(static_cast<float>(uniform * 2 - 1));
    }
    ops_.copy_in(t, host.data());
    return t;
  }
  Tensor tensor(const Shape& shape) { return tensor(t_, shape); }
  void drop() {
    held_.clear();
    arenas_.clear();
  }

  double seconds(const std::function<void()>& call) {
    std::vector<double> times;
    for (int i = 0; i <= repeats_; ++i) {
      const auto start = std::chrono::steady_clock::now();
      call();
      ops_.synchronize();
      times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    times.erase(times.begin());  // the first call warms up
    std::ranges::nth_element(times, times.begin() + repeats_ / 2);
    return times[static_cast<size_t>(repeats_ / 2)];
  }

  void add(const std::string& op, const std::string& shape, double s, double amount, const char* unit) {
    rows_.push_back({op, shape, s * 1e3, amount / s * 1e-9, unit});
  }
  // An op bound by memory: `operands` are read or written once each.
  void memory(const std::string& op, const std::vector<Tensor>& operands, const std::function<void()>& call) {
    double bytes = 0;
    for (const Tensor& x : operands) bytes += static_cast<double>(x.bytes());
    add(op, operands.front().shape.str(), seconds(call), bytes, "GB/s");
    drop();
  }

  void gemms(const Sizes& s);
  void attention(const Sizes& s, int64_t tokens);
  void token_local(const Sizes& s);
  void loss(const Sizes& s);
  void optimizer(int64_t parameters);
  const std::vector<Row>& rows() const { return rows_; }

 private:
  Ops& ops_;
  DType t_;
  int repeats_;
  std::vector<std::unique_ptr<Arena>> arenas_;
  std::vector<ArenaTensor> held_;  // after the arenas: given back before they go
  std::vector<Row> rows_;
};

void OpsBenchmark::gemms(const Sizes& s) {
  const std::vector<std::pair<int64_t, int64_t>> layers = {{s.layout().columns(), s.hidden},
                                                           {s.hidden, s.heads * s.head_dim},
                                                           {s.activation.inputs(s.ffn), s.hidden},
                                                           {s.hidden, s.ffn},
                                                           {s.vocab, s.hidden}};
  constexpr const char* names[] = {"linear", "linear_backward_input", "linear_backward_weight"};
  for (const auto& [n, k] : layers)
    for (const GemmKind kind : {GemmKind::forward, GemmKind::backward_input, GemmKind::backward_weight}) {
      const auto flops = 2.0 * static_cast<double>(s.tokens * n * k);
      const double time = time_gemm(ops_, {kind, s.tokens, n, k}, t_, 0.05 * repeats_);
      add(names[static_cast<int>(kind)], fmt::format("M={} N={} K={}", s.tokens, n, k), time, flops, "GFLOP/s");
    }
}

void OpsBenchmark::attention(const Sizes& s, int64_t length) {
  const int64_t batch = std::max<int64_t>(1, s.tokens / length);
  const Shape q_shape = {batch, length, s.heads, s.head_dim}, k_shape = {batch, length, s.kv_heads, s.head_dim};
  const Tensor q = tensor(q_shape), k = tensor(k_shape), v = tensor(k_shape), o = tensor(q_shape),
               d_o = tensor(q_shape);
  const Tensor dq = tensor(q_shape), dk = tensor(k_shape), dv = tensor(k_shape);
  const Tensor lse = tensor(DType::f32, {batch, s.heads, length});
  AttentionSpec spec;
  spec.scale = 1.0 / std::sqrt(static_cast<double>(s.head_dim));
  // Visible (query, key) pairs times head size, two products forward and five backward.
  const double pairs = static_cast<double>(batch * s.heads) * 0.5 * static_cast<double>(length * (length + 1));
  const double flops = 4.0 * pairs * static_cast<double>(s.head_dim);
  const std::string shape = fmt::format("B={} T={} H={} K={} d={}", batch, length, s.heads, s.kv_heads, s.head_dim);
  add("attention", shape, seconds([&] { ops_.attention(o, lse, q, k, v, {}, {}, spec); }), flops, "GFLOP/s");
  add("attention_backward", shape,
      seconds([&] { ops_.attention_backward(dq, dk, dv, d_o, q, k, v, o, lse, {}, {}, spec); }), 2.5 * flops,
      "GFLOP/s");
  drop();
}

void OpsBenchmark::token_local(const Sizes& s) {
  const int64_t m = s.tokens, h = s.hidden;
  const NormSpec norm;
  Tensor x = tensor({m, h}), y = tensor({m, h}), r = tensor({m, h}), sum = tensor({m, h}), gain = tensor({h});
  Tensor stats = tensor(DType::f32, {m, 2}), dgain = tensor(DType::f32, {h});
  memory("norm + residual", {x, y, r, sum}, [&] { ops_.norm(y, sum, stats, x, r, gain, gain, norm); });
  x = tensor({m, h}), y = tensor({m, h}), r = tensor({m, h}), gain = tensor({h}), stats = tensor(DType::f32, {m, 2});
  memory("norm_backward_input", {x, y, r, r},
         [&] { ops_.norm_backward_input(r, y, x, stats, gain, norm, Write::add); });
  x = tensor({m, h}), y = tensor({m, h}), stats = tensor(DType::f32, {m, 2}), dgain = tensor(DType::f32, {h});
  memory("norm_backward_weight", {x, y},
         [&] { ops_.norm_backward_weight(dgain, dgain, y, x, stats, norm, Write::set); });
  const int64_t inputs = s.activation.inputs(s.ffn);
  x = tensor({m, inputs}), y = tensor({m, s.ffn});
  memory("activation", {y, x}, [&] { ops_.activation(y, x, s.activation); });
  x = tensor({m, inputs}), y = tensor({m, s.ffn}), r = tensor({m, inputs});
  memory("activation_backward", {y, x, r}, [&] { ops_.activation_backward(r, y, x, s.activation); });
  x = tensor({m, h}), y = tensor({m, h}), r = tensor({m, h});
  memory("add", {x, y, r}, [&] { ops_.add(x, y, r); });
  x = tensor({1, m, h}), y = tensor({1, m, h});
  const Tensor samples = tensor(DType::i32, {1, 2});
  memory("dropout", {x, y}, [&] { ops_.dropout(y, x, samples, 0, {.p = 0.1}); });
  x = tensor({m, s.ffn}), dgain = tensor(DType::f32, {s.ffn});
  memory("bias_backward", {x}, [&] { ops_.bias_backward(dgain, x, Write::set); });
  const HeadLayout layout = s.layout();
  const Tensor q = tensor({m, s.heads, s.head_dim}), k = tensor({m, s.kv_heads, s.head_dim}), v = tensor(k.shape);
  x = tensor({m, layout.columns()});
  memory("split_qkv", {x, x}, [&] { ops_.split_qkv(q, k, v, x, layout, {}, {}); });
}

void OpsBenchmark::loss(const Sizes& s) {
  const Tensor targets = tensor(DType::i32, {s.tokens}, s.vocab), stats = tensor(DType::f32, {s.tokens, 3});
  const Tensor loss = tensor(DType::f32, {s.tokens, 2}), logits = tensor({s.tokens, s.vocab});
  const Vocabulary vocabulary{.first_id = 0, .valid_ids = s.vocab, .masked_ids = {}};
  ops_.softmax_stats(stats, logits, targets, vocabulary);
  ops_.cross_entropy(loss, stats, targets);
  const auto bytes = static_cast<double>(logits.bytes());
  add("softmax_stats", logits.shape.str(), seconds([&] { ops_.softmax_stats(stats, logits, targets, vocabulary); }),
      bytes, "GB/s");
  add("cross_entropy_backward", logits.shape.str(),
      seconds([&] { ops_.cross_entropy_backward(logits, loss, targets, vocabulary, 1e-3, 0.0); }), 2 * bytes, "GB/s");
  drop();
}

void OpsBenchmark::optimizer(int64_t parameters) {
  const Shape shape = {parameters};
  const Tensor param = tensor(DType::f32, shape), m = tensor(DType::f32, shape), v = tensor(DType::f32, shape);
  const Tensor grad = tensor(DType::f32, shape), sums = tensor(DType::f32, {1});
  const Tensor weights = t_ == DType::bf16 ? tensor(shape) : Tensor();
  ops_.zero(v);
  const AdamW step{.lr = 1e-4, .weight_decay = 0.1};
  const double bytes = 7.0 * static_cast<double>(param.bytes()) + static_cast<double>(weights.bytes());
  add("adamw", shape.str(), seconds([&] { ops_.adamw(param, m, v, grad, weights, step); }), bytes, "GB/s");
  const std::vector<Segment> all = {{0, parameters}};
  add("sum_squares", shape.str(), seconds([&] { ops_.sum_squares(sums, grad, all); }),
      static_cast<double>(grad.bytes()), "GB/s");
  drop();
}

void print(const std::vector<Row>& rows, const std::string& title) {
  fmt::print("{}\n\n{:<24}{:<36}{:>10}{:>11}\n", title, "op", "shape", "ms", "rate");
  for (const Row& r : rows) fmt::print("{:<24}{:<36}{:>10.3f}{:>11.1f} {}\n", r.op, r.shape, r.ms, r.rate, r.unit);
}

void print_json(const std::vector<Row>& rows, const Arguments& a, const RunSpec& spec) {
  nlohmann::json list = nlohmann::json::array();
  for (const Row& r : rows)
    list.push_back({{"op", r.op}, {"shape", r.shape}, {"ms", r.ms}, {"rate", r.rate}, {"unit", r.unit}});
  const nlohmann::json all = {{"model", spec.model.name},   {"precision", a.model.precision}, {"batch", a.model.batch},
                              {"seq_len", a.model.seq_len}, {"threads", max_threads()},       {"ops", list}};
  fmt::print("{}\n", all.dump());
}

}  // namespace

void add_bench_ops(CLI::App& bench) {
  const auto a = std::make_shared<Arguments>();
  CLI::App* command = bench.add_subcommand("ops", "Time every op at the shapes of a model's training step");
  add_model_options(*command, a->model);
  command->add_option("--parameters", a->parameters, "elements of the optimizer's ops")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command->add_option("--repeats", a->repeats, "measurements of each op; the median counts")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command->add_option("--threads", a->threads, "0: all cores")->check(CLI::NonNegativeNumber);
  command->add_option("--device", a->device)->capture_default_str()->check(CLI::IsMember(kDevices));
  command->add_flag("--json", a->json, "one JSON object");
  command->callback([a] {
    const RunSpec spec = bench_spec(a->model);
    const auto ops = open_device(a->device, a->threads);
    const Sizes sizes(spec.model, a->model.batch * a->model.seq_len);
    OpsBenchmark b(*ops, a->model.precision == "bf16" ? DType::bf16 : DType::f32, a->repeats);
    b.gemms(sizes);
    for (const int64_t length : {a->model.seq_len, 4 * a->model.seq_len, 16 * a->model.seq_len})
      b.attention(sizes, length);
    b.token_local(sizes);
    b.loss(sizes);
    b.optimizer(a->parameters);
    if (a->json)
      print_json(b.rows(), *a, spec);
    else
      print(b.rows(), fmt::format("{}, {}, {} threads", spec.model.name, a->model.precision, max_threads()));
  });
}

}  // namespace fp
