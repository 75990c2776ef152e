// The suite of worlds on NCCL groups, over a libnccl that needs no GPU (stub/nccl_stub.cpp): it tests which calls are
// made, with which arguments, on which stream. The real library needs GPUs.
#include <dlfcn.h>

#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <tuple>

#include "comm/backends.h"
#include "comm/values.h"
#include "cuda/comm/nccl_group.h"
#include "cuda/stub/nccl_stub.h"
#include "mesh/mesh_run.h"

namespace fp::test {
namespace {

using namespace fp::cuda;

template <class Function>
Function* stub(const char* name) {
  static void* const library = dlopen(FP_NCCL_STUB, RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  return reinterpret_cast<Function*>(dlsym(library, name));
}

// The computation is the test's own thread: waits block it.
class ThreadStream final : public NcclStream {
 public:
  cudaStream_t get() const override { return stream_; }
  void follow_computation() override {}
  std::unique_ptr<fp::Operation> mark() override {
    struct Marked : fp::Operation {
      explicit Marked(cudaStream_t s) : stream(s), mark(stub<decltype(nccl_stub_mark)>("nccl_stub_mark")(s)) {}
      void wait() override { stub<decltype(nccl_stub_wait)>("nccl_stub_wait")(stream, mark); }
      cudaStream_t stream;
      uint64_t mark;
    };
    return std::make_unique<Marked>(stream_);
  }

 private:
  cudaStream_t stream_ = stub<decltype(nccl_stub_stream)>("nccl_stub_stream")();
};

class StubWorld final : public fp::World {
 public:
  explicit StubWorld(fp::World& host) : World(host.rank(), host.size()), host_(host) {}
  std::string_view backend() const override { return "nccl"; }

 private:
  using Streams = std::vector<std::shared_ptr<NcclStream>>;

  std::shared_ptr<fp::Group> make_group(const std::string& name, const std::vector<int>& ranks, int) override {
    return std::make_shared<NcclGroup>(name, record(), Streams{collectives_.of(name)}, host_.group(name, ranks));
  }
  std::shared_ptr<fp::Group> make_pair(const std::string& name, const std::vector<int>& ranks, int) override {
    Streams lanes{std::make_shared<ThreadStream>(), std::make_shared<ThreadStream>()};
    auto pair = std::make_shared<NcclGroup>(name, record(), std::move(lanes), host_.pair(name, ranks));
    pair->connect({&scratch_[0], fp::DType::f32, {1}}, {&scratch_[1], fp::DType::f32, {1}});
    return pair;
  }
  fp::World& host_;
  std::array<float, 2> scratch_{};
  CollectiveStreams collectives_{[](Urgency) { return std::make_shared<ThreadStream>(); }};
};

}  // namespace

void run_worlds(const Body& body, Findings& findings) {
  for (const int size : {1, 2, 3, 4})
    fp::run_thread_ranks(size, [&](fp::World& host) {
      StubWorld world(host);
      body(world, findings);
      everyone(host, "end of test")->barrier();
    });
}

void* device_address(void* host) { return host; }

namespace {

std::vector<nccl_stub_call> calls_so_far() {
  std::vector<nccl_stub_call> calls(1 << 16);
  calls.resize(stub<decltype(nccl_stub_calls)>("nccl_stub_calls")(calls.data(), calls.size()));
  return calls;
}

using Call = std::tuple<int, std::string, size_t>;  // communicator, kind and elements

TEST_CASE("a training step over NCCL issues collectives in one order on all ranks, the urgent ones beside the others") {
  MeshPlan plan{.tp = 2, .dp = 2, .zero = GENERATE(1, 2, 3), .megatron = true};
  plan.steps = 3;
  plan.tensor_pieces = 2;
  const fp::ModelSection m = deep_model("llama", 3);
  const MeshResult threads = run_mesh(m, plan);
  stub<decltype(nccl_stub_forget_calls)>("nccl_stub_forget_calls")();
  plan.over = [](fp::World& w) { return std::make_unique<StubWorld>(w); };
  CHECK(run_mesh(m, plan) == threads);

  std::map<uint64_t, std::vector<Call>> by_rank;
  std::map<int, std::map<uint64_t, std::vector<Call>>> by_communicator;
  std::map<cudaStream_t, std::set<int>> communicators;  // by stream
  std::map<int, std::set<uint64_t>> members;
  for (const nccl_stub_call& c : calls_so_far()) {
    by_rank[c.thread].emplace_back(c.communicator, c.kind, c.elements);
    communicators[c.stream].insert(c.communicator);
    members[c.communicator].insert(c.thread);
  }
  REQUIRE(by_rank.size() == 4);
  // Two ranks that are in the same groups issue the calls of these in the same order.
  for (const auto& [a, calls] : by_rank)
    for (const auto& [b, others] : by_rank) {
      const auto shared = [&, first = a, second = b](const std::vector<Call>& list) {
        std::vector<Call> kept;
        for (const Call& c : list)
          if (members[std::get<0>(c)].count(first) > 0 && members[std::get<0>(c)].count(second) > 0) kept.push_back(c);
        return kept;
      };
      CHECK(shared(calls) == shared(others));
    }
  for (const auto& [stream, groups] : communicators) CHECK(groups.size() == 1);
  CHECK(communicators.size() == 8);  // tensor and data on each of 4 ranks
}

TEST_CASE("an NCCL error aborts the communicator, and the exception has NCCL's text") {
  std::string first, second;
  const int before = stub<decltype(nccl_stub_aborted)>("nccl_stub_aborted")();
  CHECK_THROWS_AS(fp::run_thread_ranks(2,
                                       [&](fp::World& host) {
                                         StubWorld world(host);
                                         const auto group = everyone(world, "tensor");
                                         Buffer<float> x(10, host.rank());
                                         if (host.rank() == 1) everyone(host, "wait")->barrier();
                                         stub<decltype(nccl_stub_fail_next)>("nccl_stub_fail_next")();
                                         try {
                                           group->all_reduce(x.tensor());
                                         } catch (const fp::CommError& e) {
                                           first = e.what();
                                         }
                                         try {
                                           group->all_reduce(x.tensor());
                                         } catch (const fp::CommError& e) {
                                           second = e.what();
                                           throw;
                                         }
                                       }),
                  fp::CommError);
  CHECK(first == "group tensor: all_reduce: NCCL on rank 0: remote error: the peer has gone");
  CHECK(second == "group tensor: all_reduce: NCCL has failed before");
  CHECK(stub<decltype(nccl_stub_aborted)>("nccl_stub_aborted")() > before);
}

}  // namespace
}  // namespace fp::test
