#include "ops/ops.h"

#include <array>
#include <tuple>

#include "ops/calls/operands.h"
#include "tensor/arena.h"

namespace fp {
namespace {

// A fused call has parts, which are checked and counted one by one.
template <class Call>
concept Fused = requires(const Call& call) {
  call.parts();
};

template <class Call>
void check_parts(const Call& call) {
  if constexpr (Fused<Call>)
    std::apply([](const auto&... part) { (check(part), ...); }, call.parts());
  else
    check(call);
}

template <class Call>
auto works_of(const Call& call) {
  if constexpr (Fused<Call>)
    return std::apply([](const auto&... part) { return std::array{cost(part)...}; }, call.parts());
  else
    return std::array{cost(call)};
}

}  // namespace

std::shared_ptr<std::byte> Ops::allocate(size_t bytes, bool huge_pages) { return host_memory(bytes, huge_pages); }

std::shared_ptr<std::byte> Ops::allocate_host(size_t bytes, bool huge_pages) { return host_memory(bytes, huge_pages); }

Copies& Ops::copies() {
  if (!copies_) copies_ = make_copies();
  return *copies_;
}

void Ops::check_memory(std::string_view op, const Tensor& t) const {
  FP_CHECK(t.residence == Residence::device, "{}: a tensor {} in host memory", op, t.shape.str());
  FP_CHECK(!copies_ || copies_->idle() || !copies_->fills(t.data, t.bytes()),
           "{}: a tensor {} that a copy still fills; wait for the copy first", op, t.shape.str());
}

template <class Call>
void Ops::issue(const Call& call) {
  check_parts(call);
  calls::for_each_tensor(call, [&](const Tensor& t) {
    if (t) check_memory(op_name(call), t);
  });
  if (observers_.empty()) return run(call);
  for (OpObserver* const o : observers_) o->starts(op_name(call));
  run(call);
  const auto works = works_of(call);
  for (OpObserver* const o : observers_) o->ended(op_name(call), works);
}

#define FP_OP(Call, name) \
  void Ops::name(const calls::Call& call) { issue(call); }
FP_OPS(FP_OP)
#undef FP_OP

#define FP_OP(Call, name)                                                        \
  void Ops::run(const calls::Call& call) {                                       \
    std::apply([this](const auto&... part) { (run(part), ...); }, call.parts()); \
  }
FP_FUSED_OPS(FP_OP)
#undef FP_OP

template <class Call>
CopyTicket Ops::issue_on_host(const Call& call, const CopyTicket& after) {
  check(call);
  std::vector<Tensor> tensors;
  calls::for_each_tensor(call, [&](const Tensor& t) {
    if (!t) return;
    FP_CHECK(t.residence == Residence::host, "{} on the host: a tensor {} in device memory", op_name(call),
             t.shape.str());
    tensors.push_back(t);
  });
  Ops& backend = host_backend();
  return copies().start_on_host(
      cost(call), tensors, [&backend, call] { backend.run(call); }, after);
}

#define FP_OP(Call, name) \
  CopyTicket Ops::start_on_host(const calls::Call& call, const CopyTicket& after) { return issue_on_host(call, after); }
FP_HOST_OPS(FP_OP)
#undef FP_OP

void Ops::weights_changed() {
  constexpr std::string_view kName = "weights_changed";
  for (OpObserver* const o : observers_) o->starts(kName);
  drop_copies_of_weights();
  for (OpObserver* const o : observers_) o->ended(kName, {});
}

}  // namespace fp
