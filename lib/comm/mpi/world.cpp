#include <mpi.h>

#include <exception>

#include "comm/backends.h"
#include "comm/host_reduce.h"
#include "comm/mpi/engine.h"

namespace fp {
namespace {

// Tags of send and receive and of host values, which MPI keeps in order; each collective has its own tags.
constexpr int kPairTag = 0, kHostTag = 1, kFirstTag = 2;

class MpiGroup final : public Group {
 public:
  MpiGroup(const std::string& name, int rank, int size, World& world, MpiEngine& engine, Ops* const& ops, MPI_Comm comm)
      : Group(name, rank, size, world.record()), engine_(engine), ops_(ops), comm_(comm) {
    int* largest = nullptr;
    int found = 0;
    check_mpi(MPI_Comm_get_attr(comm, MPI_TAG_UB, &largest, &found), "group " + name);
    largest_tag_ = found ? *largest : 32767;  // the minimum that the MPI standard guarantees
  }

  std::unique_ptr<Operation> start(const CommCall& call) override {
    std::vector<BufferPool::Handle> buffers;
    const bool device = ops_ != nullptr && ops_->device_memory().has_value();
    const CommCall host = device ? on_host_buffers(call, buffers) : call;
    if (ops_ != nullptr && !device) ops_->synchronize();
    buffers.push_back(engine_.buffers().take(sum_scratch_bytes(host, rank(), size())));
    std::vector<ExchangePhase> phases = phases_of(host, rank(), size(), buffers.back().data());
    if (host.to.data != call.to.data && fills(call))
      phases.push_back({[ops = ops_, to = call.to, from = host.to.data] { ops->copy_in({to, from}); }, {}});
    return std::make_unique<MpiOperation>(engine_, comm_, fmt::format("group {}: {}", name(), name_of(call.kind)),
                                          next_tag(call.kind), std::move(phases), std::move(buffers));
  }

  void exchange(std::span<const HostMessage> messages) override {
    const ExchangePhase phase{{}, {messages.begin(), messages.end()}};
    MpiOperation(engine_, comm_, "group " + name() + ": host values", kHostTag, {phase}, {}).wait();
  }

 private:
  // Returns whether the call changes `to` on this rank.
  bool fills(const CommCall& c) const {
    return c.to.elements() > 0 && (c.kind != CommKind::broadcast || c.peer != rank());
  }
  bool reads(const CommCall& c) const {
    return c.from.elements() > 0 && (c.kind != CommKind::broadcast || c.peer == rank());
  }

  // Returns the same call on host buffers, with its sources copied to them.
  CommCall on_host_buffers(const CommCall& call, std::vector<BufferPool::Handle>& buffers) {
    const auto on_host = [&](const Tensor& x) {
      buffers.push_back(engine_.buffers().take(x.bytes()));
      return Tensor(buffers.back().data(), x.dtype, x.shape);
    };
    CommCall host = call;
    host.to = on_host(call.to);
    const bool in_place = call.kind == CommKind::all_reduce || call.kind == CommKind::broadcast;
    host.from = in_place ? host.to : on_host(call.from);
    if (reads(call)) ops_->copy_out({host.from.data, call.from});
    return host;
  }

  int next_tag(CommKind kind) {
    if (kind == CommKind::send || kind == CommKind::recv) return kPairTag;
    const int tag = next_tag_;
    next_tag_ = tag + 4 > largest_tag_ ? kFirstTag : tag + 2;  // two phases
    return tag;
  }

  MpiEngine& engine_;
  Ops* const& ops_;  // refers to the world's, which attach() may still set
  MPI_Comm comm_;
  int largest_tag_ = 0, next_tag_ = kFirstTag;
};

class MpiWorld final : public World {
 public:
  MpiWorld(int rank, int size, MPI_Comm comm, int64_t largest_message)
      : World(rank, size), comm_(comm), engine_(largest_message) {}

  // A failed rank skips MPI_Finalize, and its exit without finalizing ends the job.
  ~MpiWorld() override {
    if (std::uncaught_exceptions() == 0) disconnect();
  }
  void disconnect() override {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (finalized == 0) MPI_Finalize();
  }

  std::string_view backend() const override { return "mpi"; }
  void attach(Ops& ops) override { ops_ = &ops; }
  void progress() override { engine_.progress(); }
  bool queues_collectives() const override { return false; }  // each holds buffers in host memory

 private:
  std::shared_ptr<Group> make_group(const std::string& name, const std::vector<int>& ranks, int rank) override {
    const std::string what = "group " + name;
    const int size = static_cast<int>(ranks.size());
    MPI_Group all = MPI_GROUP_NULL, members = MPI_GROUP_NULL;
    MPI_Comm comm = MPI_COMM_NULL;  // never freed before MPI_Finalize: groups live as long as the run
    check_mpi(MPI_Comm_group(comm_, &all), what);
    check_mpi(MPI_Group_incl(all, size, ranks.data(), &members), what);
    check_mpi(MPI_Comm_create_group(comm_, members, 0, &comm), what);
    check_mpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), what);
    MPI_Group_free(&members);
    MPI_Group_free(&all);
    return std::make_shared<MpiGroup>(name, rank, size, *this, engine_, ops_, comm);
  }

  MPI_Comm comm_;
  MpiEngine engine_;
  Ops* ops_ = nullptr;
};

}  // namespace

std::unique_ptr<World> make_mpi_world(int64_t largest_message) {
  FP_CHECK(largest_message > 0 && largest_message <= int64_t{1} << 30, "messages of {} bytes", largest_message);
  int initialized = 0, provided = 0, rank = 0, size = 0;
  MPI_Initialized(&initialized);
  FP_CHECK(initialized == 0, "a second MPI world in this process");
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  if (provided < MPI_THREAD_FUNNELED)
    throw ConfigError("this MPI library lacks MPI_THREAD_FUNNELED; rebuild it with thread support");
  MPI_Comm comm = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "world");
  check_mpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "world");
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  return std::make_unique<MpiWorld>(rank, size, comm, largest_message);
}

}  // namespace fp
