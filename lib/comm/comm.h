// Comm: the process-group seam. A Group is a set of ranks that act together: it moves data and adds it up over the
// ranks, and computes nothing else. A World makes groups; its implementations are self (one rank), thread, mpi, nccl
// and counting.
//
// All ranks of a group make the same calls in the same order; of a pair, which only sends and receives, the n-th
// receive of one takes the n-th message that the other sends, and nothing else need be in step. Sums of tensors are
// taken in rank order, in f32, and rounded once to the tensor's type, so every rank ends with the same bits, run after
// run (nccl: as its algorithms do it). Calls throw CommError when a peer failed. What is counted as sent: the data that
// leaves this rank, under the bandwidth-optimal algorithm: N-1 of N parts for all-gather, reduce-scatter and
// all-to-all, twice that for all-reduce.
//
// Host values travel along a tree (host_tree.h), on every backend the same: no rank talks to more than about
// 2 log2(N) others, and sums have one order, that of the tree.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/host_tree.h"
#include "comm/record.h"
#include "ops/ops.h"
#include "tensor/tensor.h"

namespace fp {

// A peer failed or the world is being torn down: whoever failed says why, this rank only has to end.
struct CommError : UserError {
  explicit CommError(const std::string& what) : UserError(ExitCode::infrastructure, what) {}
};

enum class Reduction : uint8_t { sum, max };

// One communication on tensors of the device, f32, bf16 or i32 (reductions: f32 or bf16).
struct CommCall {
  CommKind kind;
  Tensor to, from;  // all_reduce, broadcast: to == from, in place
  Reduction reduction = Reduction::sum;
  int peer = -1;                      // send: to whom, recv: from whom, broadcast: whose
  std::vector<int64_t> sends, recvs;  // all_to_all: elements for and of each rank
};

// Bytes in host memory that a rank sends to another of its group, or receives from it.
struct HostMessage {
  bool send = false;
  int peer = 0;
  std::byte* data = nullptr;  // of a send only read
  int64_t bytes = 0;
};

// Elements that this rank of a group of so many sends, as they are counted.
int64_t sent_elements(const CommCall&, int rank, int size);

// What an implementation keeps of a communication under way.
class Operation {
 public:
  virtual ~Operation() = default;
  virtual void wait() = 0;
};

// A communication under way. Until wait() returns its sources must stay as they are and its destinations untouched; ops
// issued after wait() see the result. One that is never waited for is abandoned: only on the way out of a failed run.
class Request {
 public:
  Request() = default;
  Request(CommRecord* record, CommRecord::Entry entry, std::unique_ptr<Operation> operation)
      : record_(record), entry_(std::move(entry)), operation_(std::move(operation)) {}
  void wait();
  bool pending() const { return operation_ != nullptr; }

 private:
  CommRecord* record_ = nullptr;
  CommRecord::Entry entry_;
  std::unique_ptr<Operation> operation_;
};

class Group {
 public:
  // A group of one, of every backend, moves nothing.
  Group(std::string name, int rank, int size, CommRecord& record)
      : name_(std::move(name)), rank_(rank), size_(size), record_(&record) {}
  virtual ~Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  const std::string& name() const { return name_; }  // what it is for: "tensor", "data"
  int rank() const { return rank_; }                 // in this group
  int size() const { return size_; }

  // x becomes the sum or maximum over the ranks.
  [[nodiscard]] Request start_all_reduce(const Tensor& x, Reduction = Reduction::sum);
  // whole [N * n] = the parts [n] of all ranks in rank order; part may be its own place in whole.
  [[nodiscard]] Request start_all_gather(const Tensor& whole, const Tensor& part);
  // part [n] = the sum over the ranks of piece rank() of their wholes [N * n]; part may be its own place in whole. What
  // is left in the rest of whole is undefined.
  [[nodiscard]] Request start_reduce_scatter(const Tensor& part, const Tensor& whole);
  // Piece r of `from`, sends[r] elements, becomes piece rank() of rank r's `to`, whose recvs[rank()] must be equal. In
  // rank order without gaps, `to` elsewhere than `from`. Empty counts: equal pieces.
  [[nodiscard]] Request start_all_to_all(const Tensor& to, const Tensor& from, std::vector<int64_t> sends = {},
                                         std::vector<int64_t> recvs = {});
  [[nodiscard]] Request start_broadcast(const Tensor& x, int root);
  // Of a pair. Any number may be under way at once, in both directions; a send may wait for its receive to be started.
  [[nodiscard]] Request start_send(const Tensor& x, int to);
  [[nodiscard]] Request start_recv(const Tensor& x, int from);

  void all_reduce(const Tensor& x, Reduction r = Reduction::sum) { start_all_reduce(x, r).wait(); }
  void all_gather(const Tensor& whole, const Tensor& part) { start_all_gather(whole, part).wait(); }
  void reduce_scatter(const Tensor& part, const Tensor& whole) { start_reduce_scatter(part, whole).wait(); }
  void all_to_all(const Tensor& to, const Tensor& from) { start_all_to_all(to, from).wait(); }
  void broadcast(const Tensor& x, int root) { start_broadcast(x, root).wait(); }

  // Small host values that steer the run: losses, counts, flags, names. All ranks end with the same bits. Counted as
  // kind `host`: numbers twice, up and down the tree; a text by the rank whose it is, once for each that gets it.
  // NaN is the maximum of anything and NaN.
  void all_reduce(std::span<double> values, Reduction = Reduction::sum);
  void all_reduce(std::span<uint64_t> values);  // sums modulo 2^64
  std::string broadcast(const std::string& mine, int root);
  // On the root the texts of all ranks, in rank order, of any length; elsewhere nothing.
  std::vector<std::string> gather(const std::string& mine, int root = 0);
  // On all ranks: memory and traffic of each grow with their number, so only for what all of them need to know.
  std::vector<std::string> all_gather(const std::string& mine);
  void barrier();
  // The lowest rank that says so; -1: none does.
  int lowest_with(bool mine);

 protected:
  // Both only with more than one rank.
  virtual std::unique_ptr<Operation> start(const CommCall&);
  // Sends and receives all of these and then returns. What a rank sends to another by this call arrives in order, and
  // each is awaited by a message of as many bytes; none is empty.
  virtual void exchange(std::span<const HostMessage>);
  // Before a call with host values, of which so many bytes are counted. False: no other rank is there (counting), and
  // each is taken to have given what this one has.
  virtual bool host_values_travel(int64_t) { return true; }
  // For backends whose host values travel by another's group of the same ranks.
  static void exchange_through(Group& other, std::span<const HostMessage> messages) { other.exchange(messages); }

 private:
  friend class World;
  Request issue(const CommCall&);
  CommRecord::Entry next_host_call(int64_t sent);
  template <class T, class Combine>
  void reduce_on_tree(std::span<T> values, const Combine&);
  void send_down(const HostTree&, std::span<std::byte> bytes);
  struct Texts;
  Texts gather_on_tree(const std::string& mine, int root);
  void exchange_some(std::vector<HostMessage>);

  std::string name_;
  int rank_, size_;
  bool pair_ = false;
  CommRecord* record_;
  int64_t sequence_ = 0;
};

class World {
 public:
  World(int rank, int size) : rank_(rank), size_(size) {}
  virtual ~World() = default;
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  virtual std::string_view backend() const { return "self"; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  // What this rank has sent and is doing. Outlives its groups, which must not outlive the world.
  CommRecord& record() { return record_; }

  // Where the tensors of all groups live, from now on; before, the host. `ops` must outlive the world's use.
  virtual void attach(Ops&) {}
  // The group of these world ranks, ascending, of which this one must be one, for all but send and receive. Called by
  // each of them, in the same order of calls.
  std::shared_ptr<Group> group(const std::string& name, const std::vector<int>& ranks);
  // Two world ranks, ascending, for send and receive, and for host values. A message that is waited for holds up
  // nothing but those behind it in its direction. Called by both; ranks with several pairs make them in one order, say
  // sorted.
  std::shared_ptr<Group> pair(const std::string& name, const std::vector<int>& ranks);
  // Moves what is under way a little, without waiting: for in between long computations, where data moves only while
  // this rank calls. From the thread that communicates; CommError when what is under way has failed.
  virtual void progress() {}

 protected:
  // Of more than one rank; `rank`: this one's place in `ranks`.
  virtual std::shared_ptr<Group> make_group(const std::string& name, const std::vector<int>& ranks, int rank);
  // Where messages need more than a group has.
  virtual std::shared_ptr<Group> make_pair(const std::string& name, const std::vector<int>& ranks, int rank) {
    return make_group(name, ranks, rank);
  }

 private:
  int rank_, size_;
  CommRecord record_;
};

}  // namespace fp
