// The suite of worlds on NCCL groups, over a libnccl that needs no GPU (stub/nccl_stub.cpp): it tests which calls are
// made, with which arguments, on which stream. The real library needs GPUs.
#include <dlfcn.h>

#include <array>
#include <catch2/catch.hpp>

#include "comm/backends.h"
#include "comm/values.h"
#include "cuda/comm/nccl_group.h"
#include "cuda/stub/nccl_stub.h"

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
    return std::make_shared<NcclGroup>(name, record(), Streams{collectives_}, host_.group(name, ranks));
  }
  std::shared_ptr<fp::Group> make_pair(const std::string& name, const std::vector<int>& ranks, int) override {
    Streams lanes{std::make_shared<ThreadStream>(), std::make_shared<ThreadStream>()};
    auto pair = std::make_shared<NcclGroup>(name, record(), std::move(lanes), host_.pair(name, ranks));
    pair->connect({&scratch_[0], fp::DType::f32, {1}}, {&scratch_[1], fp::DType::f32, {1}});
    return pair;
  }
  fp::World& host_;
  std::array<float, 2> scratch_{};
  std::shared_ptr<NcclStream> collectives_ = std::make_shared<ThreadStream>();
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
