// The messages of the MPI world, without MPI: their bytes, and the reuse of buffers.
#include <catch2/catch.hpp>
#include <map>

#include "comm/host_reduce.h"
#include "comm/mpi/buffers.h"
#include "comm/mpi/exchange.h"

namespace fp::test {
namespace {

using fp::CommKind;

// Bytes that rank `rank` sends and receives, by peer.
struct Flow {
  std::map<int, int64_t> out, in;
  int64_t sent() const {
    int64_t sum = 0;
    for (const auto& [peer, bytes] : out) sum += bytes;
    return sum;
  }
};

Flow flow_of(const fp::CommCall& call, int rank, int size) {
  std::vector<std::byte> scratch(fp::sum_scratch_bytes(call, rank, size));
  Flow flow;
  for (const fp::ExchangePhase& phase : fp::phases_of(call, rank, size, scratch.data()))
    for (const fp::HostMessage& m : phase.messages) (m.send ? flow.out : flow.in)[m.peer] += m.bytes;
  return flow;
}

TEST_CASE("messages carry the bytes that are counted, and each has a matching receive") {
  for (const int size : {2, 3, 8})
    for (const int64_t n : {1, 7, 1000}) {
      std::vector<float> x(static_cast<size_t>(n * size)), y(static_cast<size_t>(n * size));
      const fp::Tensor whole(x.data(), fp::DType::f32, {n * size}), part(y.data(), fp::DType::f32, {n});
      const fp::Tensor one(x.data(), fp::DType::f32, {n});
      const std::vector<fp::CommCall> calls{{CommKind::all_reduce, one, one, fp::Reduction::sum, -1, {}, {}},
                                            {CommKind::all_gather, whole, part, fp::Reduction::sum, -1, {}, {}},
                                            {CommKind::reduce_scatter, part, whole, fp::Reduction::sum, -1, {}, {}},
                                            {CommKind::broadcast, one, one, fp::Reduction::sum, 1, {}, {}}};
      for (const fp::CommCall& call : calls) {
        CAPTURE(size, n, fp::name_of(call.kind));
        std::vector<Flow> flows;
        for (int r = 0; r < size; ++r) flows.push_back(flow_of(call, r, size));
        for (int r = 0; r < size; ++r) {
          const int64_t mine = n / size + (r < n % size ? 1 : 0);
          if (call.kind == CommKind::all_reduce)
            CHECK(flows[static_cast<size_t>(r)].sent() == 4 * (n - mine + mine * (size - 1)));
          if (call.kind == CommKind::all_gather || call.kind == CommKind::reduce_scatter)
            CHECK(flows[static_cast<size_t>(r)].sent() == 4 * n * (size - 1));
          if (call.kind == CommKind::broadcast) CHECK(flows[static_cast<size_t>(r)].sent() <= 4 * 2 * n + 4 * size);
          for (const auto& [peer, bytes] : flows[static_cast<size_t>(r)].out)
            CHECK(flows[static_cast<size_t>(peer)].in.at(r) == bytes);
        }
      }
    }
}

TEST_CASE("a returned buffer is reused") {
  fp::BufferPool pool;
  std::byte *small = nullptr, *large = nullptr;
  {
    const auto a = pool.take(100), b = pool.take(1000);
    small = a.data(), large = b.data();
    CHECK(small != large);
  }
  const auto a = pool.take(500), b = pool.take(100);
  CHECK(a.data() == large);
  CHECK(b.data() == small);
  CHECK(pool.take(0).data() == nullptr);
}

}  // namespace
}  // namespace fp::test
