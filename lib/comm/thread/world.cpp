#include <algorithm>
#include <thread>

#include "base/parallel.h"
#include "comm/backends.h"
#include "comm/thread/meeting.h"

namespace fp {
namespace {

class ThreadOperation final : public Operation {
 public:
  ThreadOperation(Meeting& meeting, std::shared_ptr<Round> round, int rank)
      : meeting_(meeting), round_(std::move(round)), rank_(rank) {}
  ~ThreadOperation() override { meeting_.abandon(*round_, rank_); }
  void wait() override { meeting_.complete(*round_, rank_); }

 private:
  Meeting& meeting_;
  std::shared_ptr<Round> round_;
  int rank_;
};

class ThreadGroup final : public Group {
 public:
  ThreadGroup(const std::string& name, const std::vector<int>& ranks, int rank, World& world, Meeting& meeting,
              std::shared_ptr<OpenRounds> open)
      : Group(name, rank, static_cast<int>(ranks.size()), world.record()),
        ranks_(ranks),
        meeting_(meeting),
        open_(std::move(open)) {}

  std::unique_ptr<Operation> start(const CommCall& call) override { return post(call, 0); }

  // Numbered separately from the tensor messages of a pair, by adding size() to the ranks.
  void exchange(std::span<const HostMessage> messages) override {
    std::vector<std::unique_ptr<Operation>> under_way;
    for (const HostMessage& m : messages) {
      const Tensor bytes(m.data, DType::u8, {m.bytes});
      const CommKind kind = m.send ? CommKind::send : CommKind::recv;
      under_way.push_back(
          post({kind, m.send ? Tensor() : bytes, m.send ? bytes : Tensor(), Reduction::sum, m.peer, {}, {}}, size()));
    }
    for (const auto& message : under_way) message->wait();
  }

 private:
  std::unique_ptr<Operation> post(const CommCall& call, int numbered_from) {
    int from = -1, to = -1;
    if (call.kind == CommKind::send) from = rank(), to = call.peer;
    if (call.kind == CommKind::recv) from = call.peer, to = rank();
    const bool pair = from >= 0;
    const std::pair way{from + numbered_from, to + numbered_from};
    const int64_t number = posted_[way]++;
    const int place = !pair ? rank() : call.kind == CommKind::send ? 0 : 1;
    const std::vector<int> two = pair ? std::vector<int>{world_rank(from), world_rank(to)} : std::vector<int>{};
    auto round = meeting_.post(*open_, {way.first, way.second, number}, name(), pair ? two : ranks_, place, call);
    return std::make_unique<ThreadOperation>(meeting_, std::move(round), world_rank(rank()));
  }

  int world_rank(int r) const { return ranks_[static_cast<size_t>(r)]; }

  std::vector<int> ranks_;
  Meeting& meeting_;
  std::shared_ptr<OpenRounds> open_;
  std::map<std::pair<int, int>, int64_t> posted_;  // calls posted, by (sender, receiver); -1: collective
};

class ThreadWorld final : public World {
 public:
  ThreadWorld(Meeting& meeting, int rank, int size) : World(rank, size), meeting_(meeting) {}
  std::string_view backend() const override { return "thread"; }

 private:
  std::shared_ptr<Group> make_group(const std::string& name, const std::vector<int>& ranks, int rank) override {
    auto open = meeting_.group(name, ranks, made_[{name, ranks}]++);
    return std::make_shared<ThreadGroup>(name, ranks, rank, *this, meeting_, std::move(open));
  }

  Meeting& meeting_;
  std::map<std::pair<std::string, std::vector<int>>, int> made_;
};

void run_rank(Meeting& meeting, int rank, int size, const std::function<void(World&)>& body) {
  try {
    ThreadWorld world(meeting, rank, size);
    body(world);
    meeting.end(rank);
  } catch (const CommError& e) {
    meeting.fail(rank, e.what(), true);
  } catch (const std::exception& e) {
    meeting.fail(rank, e.what(), false);
  } catch (...) {
    meeting.fail(rank, "an exception of unknown type", false);
  }
}

}  // namespace

void run_thread_ranks(int size, const std::function<void(World&)>& body) {
  Meeting meeting(size);
  const int threads = std::max(1, max_threads() / size);  // of each rank's parallel regions
  {
    std::vector<std::jthread> ranks;
    try {
      for (int rank = 0; rank < size; ++rank)
        ranks.emplace_back([&, rank] {
          set_threads(threads);
          run_rank(meeting, rank, size, body);
        });
    } catch (const std::exception& e) {  // a thread could not be started: the running ones must not wait for it
      meeting.fail(static_cast<int>(ranks.size()), e.what(), false);
    }
  }
  if (const std::exception_ptr failure = meeting.failure()) std::rethrow_exception(failure);
}

}  // namespace fp
