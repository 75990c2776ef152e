// Self-attention in chunks of the sequence, on one and several sequence-parallel ranks, against one dense pass of the
// oracle's ops.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "comm/backends.h"
#include "dryrun/setup.h"
#include "exec/device_batch.h"
#include "model/host_view.h"
#include "model/model.h"
#include "ops/backends.h"
#include "support/tiny_models.h"

using namespace fp;
using namespace fp::test;

namespace {

constexpr int64_t kSamples = 2, kLength = 24;

struct Attended {
  std::vector<float> y, dx;                             // [sample][token][h]
  std::map<std::string, std::vector<float>> gradients;  // of the parameters of attention
};

// A value of the input or of the output's gradient.
float value(int64_t sample, int64_t token, int64_t column, int kind) {
  return static_cast<float>(std::sin(0.7 * static_cast<double>(sample + 1) * static_cast<double>(token + 3) +
                                     1.3 * static_cast<double>(column * (kind + 1)) + kind));
}

struct Setting {
  ModelSection model;
  DType compute = DType::f32;
  bool documents = false;
  int64_t chunks = 1;
  int ranks = 1;
};

// Runs the attention of the model's last layer, forward and backward.
class AttentionRun {
 public:
  AttentionRun(const Setting& s, World& world, std::unique_ptr<Ops> ops)
      : s_(s),
        ops_(std::move(ops)),
        arena_(ops_->allocate(kBytes, false), kBytes),
        model_(s.model, options(s), *ops_, arena_, make_groups(world, Mesh(1, 1, s.ranks, 1, s.ranks))) {
    model_.params().initialize(*ops_, 5);
  }

  void run(Attended& result) {
    const ModelEnv& e = model_.env();
    Batch b = random_batch(s_.model, kSamples, kLength, 3, s_.documents);
    const DeviceBatch device = upload(e, b, true);
    const SelfAttention attention(e, s_.model.layers - 1);
    std::vector<SelfAttentionState> states(device.chunks.size());
    KeyValues kv(e, states.size(), false);
    model_.params().begin_step();
    for (const MicroBatch& m : device.chunks) {
      states[m.chunk].x = filled(m, 0);
      read(m, attention.forward(m, states[m.chunk], kv, {e.whole(m), [](int64_t) {}, {}}), result.y);
    }
    for (size_t c = states.size(); c-- > 0;) {
      const MicroBatch& m = device.chunks[c];
      read(m, attention.backward_input(filled(m, 1), m, states[c], kv), result.dx);
      attention.release(states[c]);
      attention.backward_weight(states[c]);
    }
    add_gradients(result);
  }

 private:
  static constexpr size_t kBytes = size_t{8} << 20;

  static ModelOptions options(const Setting& s) {
    ModelOptions o{s.compute, true, DType::f32, 0, false, Recompute::none, 11, kLength};
    o.sequence_chunk = kLength / s.chunks;
    return o;
  }

  // Calls f(row, sample, token) for the rows of a chunk.
  template <class F>
  static void for_rows(const MicroBatch& m, const F& f) {
    for (int64_t b = 0; b < m.samples(); ++b)
      for (int64_t t = 0; t < m.share.tokens; ++t) f(b * m.share.tokens + t, b, m.share.first_token + t);
  }

  ArenaTensor filled(const MicroBatch& m, int kind) {
    const int64_t h = s_.model.hidden;
    std::vector<float> host(static_cast<size_t>(m.rows() * h));
    for_rows(m, [&](int64_t row, int64_t b, int64_t t) {
      const bool padding = kind == 1 && t >= kLength;  // no loss depends on it
      for (int64_t c = 0; c < h; ++c) host[static_cast<size_t>(row * h + c)] = padding ? 0 : value(b, t, c, kind);
    });
    ArenaTensor wide = model_.env().alloc_f32({m.rows(), h});
    write_tensor(*ops_, wide, host.data());
    return rounded(model_.env(), std::move(wide));
  }

  void read(const MicroBatch& m, const Tensor& x, std::vector<float>& whole) {
    const int64_t h = s_.model.hidden;
    std::vector<float> host(static_cast<size_t>(x.elements()));
    read_tensor(*ops_, model_.env().widened(x), host.data());
    for_rows(m, [&](int64_t row, int64_t b, int64_t t) {
      if (t < kLength) std::copy_n(host.begin() + row * h, h, whole.begin() + (b * kLength + t) * h);
    });
  }

  void add_gradients(Attended& result) {
    const AttentionIds& ids = model_.env().ids->blocks.back().attention;
    const auto add = [&](ParamId first, ParamId last) {
      for (ParamId id = first; id >= 0 && id <= last; ++id) {
        const Tensor g = model_.params().grad(id);
        std::vector<float> host(static_cast<size_t>(g.elements()));
        read_tensor(*ops_, g, host.data());
        std::vector<float>& sum = result.gradients[model_.table()[id].name];
        sum.resize(host.size());
        for (size_t i = 0; i < host.size(); ++i) sum[i] += host[i];
      }
    };
    for (const LinearIds& l : {ids.qkv, ids.proj}) {
      add(l.first, l.last);
      if (l.bias >= 0) add(l.bias, l.last_bias);
    }
  }

  Setting s_;
  std::unique_ptr<Ops> ops_;
  Arena arena_;
  Model model_;
};

Attended attend(const Setting& s, bool oracle) {
  const auto n = static_cast<size_t>(kSamples * kLength * s.model.hidden);
  Attended whole{std::vector<float>(n), std::vector<float>(n), {}};
  std::vector<Attended> of_ranks(static_cast<size_t>(s.ranks), whole);
  run_thread_ranks(s.ranks, [&](World& world) {
    AttentionRun(s, world, oracle ? make_ref_ops() : make_cpu_ops()).run(of_ranks[static_cast<size_t>(world.rank())]);
  });
  for (const Attended& r : of_ranks) {  // each row is of one rank, and 0 elsewhere
    for (size_t i = 0; i < n; ++i) whole.y[i] += r.y[i], whole.dx[i] += r.dx[i];
    for (const auto& [name, g] : r.gradients) {
      std::vector<float>& sum = whole.gradients[name];
      sum.resize(g.size());
      for (size_t i = 0; i < g.size(); ++i) sum[i] += g[i];
    }
  }
  return whole;
}

// Returns the largest difference relative to the largest value.
double difference(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0, largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(static_cast<double>(a[i]) - b[i]);
    most = std::isfinite(d) ? std::max(most, d) : std::numeric_limits<double>::infinity();
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
  }
  return most / largest;
}

double root_mean_square(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - b[i], 2);
  return std::sqrt(sum / static_cast<double>(a.size()));
}

std::vector<Setting> settings() {
  std::vector<Setting> all;
  const auto add = [&](const std::string& name, int64_t kv_heads, double dropout, bool documents) {
    Setting s{tiny_model(name)};
    s.model.kv_heads = kv_heads;
    s.model.dropout_attention = dropout;
    s.documents = documents;
    all.push_back(s);
  };
  add("gpt", 4, 0, false);
  add("gpt", 4, 0.2, true);
  add("llama", 2, 0, true);
  add("llama", 1, 0.2, false);
  add("phi3", 2, 0, true);  // a window of 5 tokens
  add("phi3-longrope", 4, 0, false);
  add("phi3small", 2, 0.2, false);       // blocksparse
  add(tiny_names().back(), 1, 0, true);  // with norms of heads
  return all;
}

}  // namespace

TEST_CASE("attention in chunks equals dense attention of the oracle, forward and backward", "[mesh]") {
  for (Setting s : settings()) {
    const Attended dense = attend(s, true);
    for (const int64_t chunks : {1, 2, 3, 8})
      for (const int ranks : {1, 2, 4}) {
        s.chunks = chunks;
        s.ranks = ranks;
        CAPTURE(s.model.family, s.model.kv_heads, s.documents, chunks, ranks);
        const Attended a = attend(s, false);
        CHECK(difference(a.y, dense.y) <= 1e-5);
        CHECK(difference(a.dx, dense.dx) <= 1e-5);
        for (const auto& [name, g] : dense.gradients) {
          CAPTURE(name);
          if (name.ends_with("attn.c_attn.bias")) continue;  // the keys' part is rounding noise
          CHECK(difference(a.gradients.at(name), g) <= 1e-5);
        }
      }
  }
}

TEST_CASE("bf16 attention in chunks has at most 1.5 times the error of whole sequences", "[mesh]") {
  for (Setting s : settings()) {
    s.compute = DType::bf16;
    Setting exact = s;
    exact.compute = DType::f32;
    const Attended dense = attend(exact, true), whole = attend(s, false);
    for (const int64_t chunks : {2, 3, 8}) {
      s.chunks = chunks;
      CAPTURE(s.model.family, s.model.kv_heads, s.documents, chunks);
      const Attended a = attend(s, false);
      CHECK(root_mean_square(a.y, dense.y) <= 1.5 * root_mean_square(whole.y, dense.y));
      CHECK(root_mean_square(a.dx, dense.dx) <= 1.5 * root_mean_square(whole.dx, dense.dx));
      for (const auto& [name, g] : dense.gradients) {
        CAPTURE(name);
        CHECK(root_mean_square(a.gradients.at(name), g) <= 1.5 * root_mean_square(whole.gradients.at(name), g));
      }
    }
  }
}
