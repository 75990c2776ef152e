// Ops: the device interface. All arithmetic of a model goes through it. An implementation owns one device and never
// communicates. Calls are issued in order and may run asynchronously until synchronize().
//
// Conventions. Destinations come first. Tensors are contiguous and row-major; activations and weights are all f32 or
// all bf16 (the compute type); statistics and gradients of parameters are f32; sums are accumulated in f32 or better.
// M = B*T tokens. Linear weights are [N,K] = (out, in). Input gradients and weight gradients are separate calls, so
// that a pipeline schedule may run them at different times. Results do not depend on the number of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ops/draws.h"
#include "tensor/tensor.h"

namespace fp {

// Says whether a destination is overwritten or added to.
enum class Write : uint8_t { set, add };

enum class Norm : uint8_t { layernorm, rmsnorm };

struct NormSpec {
  Norm kind = Norm::layernorm;
  double eps = 1e-5;
};

// gelu: tanh form (0.5x(1+tanh(sqrt(2/pi)(x+0.044715x^3)))). swiglu: x = [gate | up], y = silu(gate)*up.
// gegelu: x interleaves a (even) and b (odd), a clamped above and b clamped to +-limit (infinities pass),
// y = a*sigmoid(1.702a)*(b+1).
enum class Activation : uint8_t { gelu, swiglu, gegelu };

struct ActivationSpec {
  Activation kind = Activation::gelu;
  double limit = 20.0;  // gegelu; 0: no clamp
  // Returns the number of input columns for `f` output columns.
  constexpr int64_t inputs(int64_t f) const { return kind == Activation::gelu ? f : 2 * f; }
};

// Layout of the (H+2K)*d columns of a fused QKV projection: blocked [q of all heads | k | v], or grouped per kv head
// [q0..q(H/K-1), k, v] (phi-3-small).
struct HeadLayout {
  int64_t heads = 1, kv_heads = 1, head_dim = 1;
  bool grouped = false;
  constexpr int64_t columns() const { return (heads + 2 * kv_heads) * head_dim; }
  constexpr int64_t q_column(int64_t head) const {
    const int64_t group = heads / kv_heads;
    return grouped ? (head / group * (group + 2) + head % group) * head_dim : head * head_dim;
  }
  constexpr int64_t k_column(int64_t kv) const {
    return grouped ? (kv * (heads / kv_heads + 2) + heads / kv_heads) * head_dim : (heads + kv) * head_dim;
  }
  constexpr int64_t v_column(int64_t kv) const {
    return grouped ? k_column(kv) + head_dim : (heads + kv_heads + kv) * head_dim;
  }
};

// Rotary position embedding: cos and sin, each [positions, d/2] f32, any attention factor already applied; halves (i,
// i+d/2) are rotated. Empty tensors: no rotation.
struct Rope {
  Tensor cos, sin;
};

struct AttentionSpec {
  double scale = 1.0;    // scores = scale * q.k
  int64_t window = 0;    // number of keys a query sees, its own included; 0: all keys up to its own
  int64_t q_offset = 0;  // position of the first query in the sequence
  int64_t k_offset = 0;  // position of the first key
  // Blocksparse (phi-3-small): query block qb sees key block kb if and only if qb-kb < local_blocks or
  // (kb + head*head_step + 1) % vertical_stride == 0, where head = first_head + local head index counts the heads of
  // all ranks. block = 0: dense.
  int64_t block = 0, local_blocks = 0, vertical_stride = 0, head_step = 1, first_head = 0;
  Dropout dropout;  // on the probabilities; (element, token) = (key, query) position, head = first_head + local
};

// The vocabulary slice of logits [rows, V]: global ids [first_id, first_id + V). Ids >= valid_ids are padding, and
// `masked_ids` (i32, may be empty) are excluded; both get probability 0. Logits are multiplied by logit_scale.
struct Vocabulary {
  int64_t first_id = 0;
  int64_t valid_ids = 0;
  Tensor masked_ids;
  double logit_scale = 1.0;
};

struct AdamW {
  double lr = 0, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0;
  int64_t step = 1;         // 1-based, for the bias correction
  double grad_scale = 1.0;  // factor on the gradients, applied first (clipping)
};

// Sums that adamw() computes along the way; an empty tensor is not computed.
struct AdamWSums {
  Tensor gradient;  // f32 [1,2]: piece_sums() of grad, before it is scaled
  Tensor bits;      // i32 [4,2]: bit_sums() of the new param, m, v and weights, 0 without weights
};

// A range of elements of a flat buffer.
struct Segment {
  int64_t offset = 0, count = 0;
};

// Memory of a device in bytes: used by all processes, and available.
struct DeviceMemory {
  size_t used = 0, available = 0;
};

class Ops {
 public:
  virtual ~Ops() = default;
  virtual std::string_view name() const = 0;

  // ---- the device: not for use inside a step ------------------------------------------------------------------------
  // Allocates uninitialised memory for tensors, aligned to 256 bytes and freed with its last owner. Throws ConfigError
  // when there is not enough. huge_pages has an effect only where the device is the host.
  virtual std::shared_ptr<std::byte> allocate(size_t bytes, bool huge_pages = true);
  // Memory of the device that allocate() takes from; nullopt: that is the host's memory.
  virtual std::optional<DeviceMemory> device_memory() const { return std::nullopt; }
  // Identifies the device among all devices of its machine; empty: the host itself.
  virtual std::string device_id() const { return {}; }
  // Scratch bytes that such an attention call needs; only the shapes of the tensors are used.
  virtual size_t attention_scratch(const Tensor& /*q*/, const Tensor& /*k*/, const Tensor& /*doc_start*/,
                                   const AttentionSpec&, bool /*backward*/) const {
    return 0;
  }
  // Reserves scratch for the calls to come, so that they allocate nothing.
  virtual void reserve_scratch(size_t /*bytes*/) {}
  // Bytes that the backend holds beside tensors, with `scratch` bytes of scratch reserved.
  virtual size_t own_bytes(size_t /*scratch*/) const { return 0; }
  // Names the implementation that runs such an attention call, and why others were passed over:
  // "flash (cudnn: attention dropout)".
  virtual std::string explain_attention(const Tensor& /*q*/, const Tensor& /*k*/, const Tensor& /*doc_start*/,
                                        const AttentionSpec&) const {
    return std::string(name());
  }
  // FLOP/s of matrix products according to the data sheet; 0: not known.
  virtual double peak_flops(DType) const { return 0.0; }

  // ---- memory -------------------------------------------------------------------------------------------------------
  // Copies dst.bytes() bytes from host memory, which may be reused when the call returns.
  virtual void copy_in(const Tensor& dst, const void* host) = 0;
  virtual void copy_out(void* host, const Tensor& src) = 0;     // blocks until the bytes have arrived
  virtual void copy(const Tensor& dst, const Tensor& src) = 0;  // same dtype and element count
  virtual void zero(const Tensor& x) = 0;
  virtual void cast(const Tensor& dst,
                    const Tensor& src) = 0;  // f32 <-> bf16 (round to nearest even), same element count
  // Permutes dimensions: dimension i of y is dimension order[i] of x; f32, bf16 or i32. Packs heads for an all-to-all
  // between P ranks: [B,T,P,H/P,d] by {2,0,1,3,4} -> [P,B,T,H/P,d], one piece for each rank.
  virtual void permute(const Tensor& y, const Tensor& x, std::span<const int> order) = 0;
  // Columns [y_first, y_first + count) of y [M,Ny] = or += columns [x_first, x_first + count) of x [M,Nx]; f32 or bf16,
  // a sum is rounded once. Used to gather the heads that an all-to-all sends, and to add up the gradients of kv heads
  // that several ranks hold.
  virtual void copy_columns(const Tensor& y, int64_t y_first, const Tensor& x, int64_t x_first, int64_t count,
                            Write) = 0;
  // first i32 [rows of x]: column of the first infinite or NaN element of each row of x; -1 when all are finite. x is
  // f32 or bf16 and has fewer than 2^31 columns.
  virtual void find_nonfinite(const Tensor& first, const Tensor& x) = 0;
  // dst bf16 [n] = src f32 [n], each element rounded up or down at random so that its expected value is kept.
  virtual void round_stochastically(const Tensor& dst, const Tensor& src, const StochasticRounding&) = 0;
  // sums i32 [2] of the bit patterns w_i of x (f32 or bf16), i from 0: sum of w_i and sum of (2i+1) w_i, modulo 2^32.
  // Used to compare copies: a change of any one element changes the first sum.
  virtual void bit_sums(const Tensor& sums, const Tensor& x) = 0;
  // sums f32 [P,2]: for each of the P equal pieces of x (f32 or bf16) the sum of its elements and the sum of their
  // magnitudes, added up in double or in short blocks; non-finite when any element is. Used to verify sums over ranks,
  // which are linear.
  virtual void piece_sums(const Tensor& sums, const Tensor& x) = 0;
  virtual void synchronize() = 0;
  // Notifies the backend that weights have changed; it drops cached copies in other layouts.
  virtual void weights_changed() = 0;

  // ---- linear: y[M,N] = x[M,K] w[N,K]^T + bias[N] -------------------------------------------------------------------
  virtual void linear(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias /* empty: none */) = 0;
  virtual void linear_backward_input(const Tensor& dx, const Tensor& dy, const Tensor& w) = 0;  // dx = dy w
  virtual void linear_backward_weight(const Tensor& dw, const Tensor& dy, const Tensor& x,
                                      Write) = 0;                             // dw f32 = dy^T x
  virtual void bias_backward(const Tensor& db, const Tensor& dy, Write) = 0;  // db f32 = column sums

  // Fused ops. A backend that has no fused kernel runs the parts one after another. Results are the same, except that a
  // fused kernel may leave out the rounding in between.
  // u = x w^T + bias, y = gelu(u).
  virtual void linear_gelu(const Tensor& y, const Tensor& u, const Tensor& x, const Tensor& w, const Tensor& bias);
  // du = gelu'(u) * (dy w).
  virtual void linear_backward_input_gelu(const Tensor& du, const Tensor& dy, const Tensor& w, const Tensor& u);
  // linear_backward_weight and bias_backward.
  virtual void linear_backward_weight_bias(const Tensor& dw, const Tensor& db, const Tensor& dy, const Tensor& x,
                                           Write dw_write, Write db_write);

  // ---- token-local --------------------------------------------------------------------------------------------------
  // y[M,h] = scale * table[ids] + positions_table[positions]  (positions_table and positions may be empty). An id or a
  // position of -1 has no row here and gives zeros, so that the results of row slices of a table add up to the whole.
  virtual void embedding(const Tensor& y, const Tensor& ids, const Tensor& table, const Tensor& positions,
                         const Tensor& positions_table, double scale) = 0;
  // Adds scale * dy of each token to the row of its id in dtable f32 [V,h], in token order; ids of -1 are skipped.
  virtual void embedding_backward(const Tensor& dtable, const Tensor& dy, const Tensor& ids, double scale) = 0;

  // y = norm(sum) * gain + bias with sum = x + residual; residual and sum empty: norm(x). bias empty: none.
  // stats f32 [M,2] = (mean, 1/std) (mean 0 for rmsnorm). The normalised value is rounded to the compute type before
  // the gain is applied, as in the published models. sum may alias x or residual.
  virtual void norm(const Tensor& y, const Tensor& sum, const Tensor& stats, const Tensor& x, const Tensor& residual,
                    const Tensor& gain, const Tensor& bias, const NormSpec&) = 0;
  // x is the tensor that was normalised (sum, if there was a residual). With Write::add, dx already holds the gradient
  // of the residual branch.
  virtual void norm_backward_input(const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& stats,
                                   const Tensor& gain, const NormSpec&, Write) = 0;
  // dgain sums dy times the normalised value as rounded in the forward pass.
  virtual void norm_backward_weight(const Tensor& dgain, const Tensor& dbias /* empty: none */, const Tensor& dy,
                                    const Tensor& x, const Tensor& stats, const NormSpec&, Write) = 0;

  virtual void activation(const Tensor& y, const Tensor& x, const ActivationSpec&) = 0;
  // dx may alias dy for gelu.
  virtual void activation_backward(const Tensor& dx, const Tensor& dy, const Tensor& x, const ActivationSpec&) = 0;
  virtual void add(const Tensor& y, const Tensor& a, const Tensor& b) = 0;  // y may alias a or b
  // x [B,T,C] -> y (may alias x). sample_ids i32 [B,2] = (low, high) words of the global sample index; the token is
  // first_token + t. The backward pass is the same call on the gradient.
  virtual void dropout(const Tensor& y, const Tensor& x, const Tensor& sample_ids, int64_t first_token,
                       const Dropout&) = 0;

  // qkv [M, layout.columns()] -> q [M,H,d], k [M,K,d], v [M,K,d], q and k rotated by `positions` (i32 [M]).
  virtual void split_qkv(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& qkv, const HeadLayout&,
                         const Rope&, const Tensor& positions) = 0;
  virtual void split_qkv_backward(const Tensor& dqkv, const Tensor& dq, const Tensor& dk, const Tensor& dv,
                                  const HeadLayout&, const Rope&, const Tensor& positions) = 0;

  // ---- attention: the only ops that mix tokens ----------------------------------------------------------------------
  // q, o [B,Tq,H,d]; k, v [B,Tk,K,d], H a multiple of K (query head j uses kv head j / (H/K)); lse f32 [B,H,Tq] = log
  // of the sum of exp(scores). The query at position p = q_offset + i sees the keys at positions n = k_offset + j with
  // max(doc_start[b,i], p - window + 1) <= n <= p that the blocksparse mask allows. doc_start i32 [B,Tq] holds
  // positions; empty: all 0. A query that sees no key gets o = 0 and lse = -infinity, so that partial results can be
  // merged.
  virtual void attention(const Tensor& o, const Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v,
                         const Tensor& doc_start, const Tensor& sample_ids, const AttentionSpec&) = 0;
  // Merges attention over one set of keys (o, lse) with attention over another (o_part, lse_part), in place: with
  // l = log(exp(lse) + exp(lse_part)), o = exp(lse - l) o + exp(lse_part - l) o_part and lse = l. o f32 [B,T,H,d], lse
  // and lse_part f32 [B,H,T], o_part f32 or bf16. A side whose lse is -infinity adds nothing, whatever its o holds; two
  // such sides give 0 and -infinity.
  virtual void attention_merge(const Tensor& o, const Tensor& lse, const Tensor& o_part, const Tensor& lse_part) = 0;
  // Takes o and lse over all keys (after any merge). Writes dq, dk, dv.
  virtual void attention_backward(const Tensor& dq, const Tensor& dk, const Tensor& dv, const Tensor& d_o,
                                  const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& o, const Tensor& lse,
                                  const Tensor& doc_start, const Tensor& sample_ids, const AttentionSpec&) = 0;

  // ---- loss ---------------------------------------------------------------------------------------------------------
  // stats f32 [C,3], for each row of logits [C,V]: maximum, sum of exp(l - maximum), logit of the target (-infinity
  // when the target is not in this slice). targets i32 [C] are global ids, -1: ignored. softmax_stats_merge() combines
  // the stats of several slices.
  virtual void softmax_stats(const Tensor& stats, const Tensor& logits, const Tensor& targets, const Vocabulary&) = 0;
  // Merges parts f32 [P,C,3], the stats of the P slices of a vocabulary in order, into stats [C,3]: maximum of all, sum
  // of sum_p * exp(maximum_p - maximum), largest target. A slice without a valid logit (-infinity, 0, -infinity) adds
  // nothing; a sum of NaN stays NaN. stats may not alias parts.
  virtual void softmax_stats_merge(const Tensor& stats, const Tensor& parts) = 0;
  // loss f32 [C,2] = (lse - target logit, lse), both 0 for ignored rows.
  virtual void cross_entropy(const Tensor& loss, const Tensor& stats, const Tensor& targets) = 0;
  // Replaces logits by their gradient scale*logit_scale*(softmax*(1 + 2*z_loss*lse) - onehot); 0 for ignored rows and
  // for padding and masked columns.
  virtual void cross_entropy_backward(const Tensor& logits, const Tensor& loss, const Tensor& targets,
                                      const Vocabulary&, double scale, double z_loss) = 0;

  // ---- optimizer ----------------------------------------------------------------------------------------------------
  // sums f32 [segments]: sum of squares of each segment of flat x (f32), added up in double or in short blocks;
  // non-finite when any element is.
  virtual void sum_squares(const Tensor& sums, const Tensor& x, std::span<const Segment> segments) = 0;
  // AdamW with decoupled weight decay on flat f32 buffers. `weights` (bf16 copy of param, or empty) is refreshed and
  // the sums are computed in the same pass.
  virtual void adamw(const Tensor& param, const Tensor& m, const Tensor& v, const Tensor& grad, const Tensor& weights,
                     const AdamW&, const AdamWSums& sums) = 0;
};

// Returns whether query position p of a head sees key position n; documents are not considered. Every backend is tested
// against this definition.
constexpr bool attends(const AttentionSpec& s, int64_t head, int64_t p, int64_t n) {
  if (n > p || (s.window > 0 && n <= p - s.window)) return false;
  if (s.block == 0) return true;
  const int64_t qb = p / s.block, kb = n / s.block;
  return qb - kb < s.local_blocks || (kb + (s.first_head + head) * s.head_step + 1) % s.vertical_stride == 0;
}

}  // namespace fp
