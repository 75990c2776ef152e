// Device queries of the CUDA backend, and the memory that it holds beside tensors.
#include "base/parallel.h"
#include "cuda/ops/cuda_ops.h"
#include "cuda/rules/data_sheet.h"

namespace fp {
namespace {

// Enough for the partial sums of every op except attention.
constexpr size_t kSmallScratch = size_t{16} << 20;

// Returns an attention call with shapes and mask, but without addresses.
cuda::AttentionCall shape_only(const Tensor& q, const Tensor& k, const Tensor& doc_start, const AttentionSpec& spec) {
  const Tensor lse(q.data, DType::f32, {q.shape[0], q.shape[2], q.shape[1]});
  return {q, lse, q, k, k, doc_start, {}, spec, q, q, k, k};
}

class StreamCopies final : public Copies {
 public:
  explicit StreamCopies(cuda::Device& device) : device_(device) {}

 private:
  void begin(const Copy& c) override { device_.start_copy(c.ticket, c.dst, c.src, c.bytes, c.after); }
  void begin(HostOp op) override {
    const auto run = [threads = max_threads(), run = std::move(op.run)] {
      set_threads(threads);  // as many as the rank has
      run();
    };
    device_.start_on_host(op.ticket, run, op.after);
  }
  void order_ops_after(const CopyTicket& t) override { device_.wait_for_copy(t); }

  cuda::Device& device_;
};

}  // namespace

CudaOps::CudaOps(int device_index, std::unique_ptr<Ops> host)
    : device_(device_index), gemm_(device_), attention_(*this), pieces_(device_), host_(std::move(host)) {
  device_.reserve_scratch(kSmallScratch);
}

std::shared_ptr<std::byte> CudaOps::allocate(size_t bytes, bool) { return device_.allocate(bytes); }

std::shared_ptr<std::byte> CudaOps::allocate_host(size_t bytes, bool) { return device_.allocate_host(bytes); }

std::unique_ptr<Copies> CudaOps::make_copies() { return std::make_unique<StreamCopies>(device_); }

Ops& CudaOps::host_backend() {
  FP_CHECK(host_ != nullptr, "no backend for ops on host memory");
  return *host_;
}

std::string CudaOps::device_id() const { return device_.facts().id; }

std::optional<DeviceMemory> CudaOps::device_memory() const {
  const size_t free = device_.free_bytes();
  return DeviceMemory{device_.facts().memory_bytes - free, free};
}

size_t CudaOps::scratch_of(const calls::Attention& c) const {
  return attention_.scratch_bytes(shape_only(c.q, c.k, c.doc_start, c.spec), cuda::AttentionPass::forward);
}

size_t CudaOps::scratch_of(const calls::AttentionBackward& c) const {
  cuda::AttentionCall call = shape_only(c.q, c.k, c.doc_start, c.spec);
  call.dq_write = c.dq_write, call.dkv_write = c.dkv_write;
  return attention_.scratch_bytes(call, cuda::AttentionPass::backward);
}

void CudaOps::reserve_scratch(size_t bytes) { device_.reserve_scratch(bytes); }

size_t CudaOps::own_bytes(size_t scratch) const {
  return cuda::Gemm::own_bytes() + cuda::PieceTable::kBytes + std::max(scratch, kSmallScratch);
}

std::string CudaOps::explain_attention(const Tensor& q, const Tensor& k, const Tensor& doc_start,
                                       const AttentionSpec& spec) const {
  return attention_.explain(shape_only(q, k, doc_start, spec));
}

double CudaOps::peak_flops(DType compute) const { return cuda::data_sheet_flops(device_.facts().name, compute); }

}  // namespace fp
