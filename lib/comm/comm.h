// Comm: the interface for communication between ranks. A Group is a set of ranks with collectives: it moves data and
// reduces it over the ranks, and computes nothing else. A pair is a Group of two ranks that send and receive. A World
// creates groups; its implementations are self (one rank), thread, mpi, nccl and counting.
//
// All ranks of a group make the same calls in the same order. In a pair, the n-th receive of one rank takes the n-th
// message that the other sends; nothing else need be in step. Tensors are summed in rank order, in f32, and rounded
// once to the tensor's type, so every rank gets the same bits in every run (nccl: as its algorithms do it). Calls throw
// CommError when a peer has failed. The bytes counted as sent are those that leave this rank under the
// bandwidth-optimal algorithm: N-1 of N parts for all-gather, reduce-scatter and all-to-all, twice that for all-reduce.
//
// Host values travel along a tree (host_tree.h), in the same way on every backend: no rank talks to more than about
// 2 log2(N) others, and sums are taken in one order, that of the tree.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/host_tree.h"
#include "comm/nodes.h"
#include "comm/record.h"
#include "ops/ops.h"
#include "tensor/tensor.h"

namespace fp {

// A peer has failed or the world is being torn down. The rank that failed reports the reason; this one only has to end.
struct CommError : UserError {
  explicit CommError(const std::string& what) : UserError(ExitCode::infrastructure, what) {}
};

enum class Reduction : uint8_t { sum, max };

// One communication of device tensors, f32, bf16 or i32 (reductions: f32 or bf16).
struct CommCall {
  CommKind kind;
  Tensor to, from;  // all_reduce, broadcast: to == from, in place
  Reduction reduction = Reduction::sum;
  int peer = -1;                      // send: destination; recv: source; broadcast: root
  std::vector<int64_t> sends, recvs;  // all_to_all: elements sent to, and received from, each rank
};

// Bytes in host memory that a rank sends to another rank of its group, or receives from it.
struct HostMessage {
  bool send = false;
  int peer = 0;
  std::byte* data = nullptr;  // a send only reads it
  int64_t bytes = 0;
};

// Bytes that a rank sends to, and receives from, each rank of its group in an all-to-all whose pieces differ. Empty:
// equal pieces, or another kind of call.
struct UnevenPieces {
  std::vector<int64_t> sends, recvs;
};
UnevenPieces uneven_pieces(const CommCall&);

// Returns the number of elements that `rank` of a group of `size` ranks sends in this call, as they are counted.
int64_t sent_elements(const CommCall&, int rank, int size);
// Returns the number of those elements that leave the rank's node under ring algorithms, in which a rank sends only to
// the next rank. `nodes`: the node of each rank of the group; empty: all ranks are on one node.
int64_t sent_between_nodes(const CommCall&, int rank, int size, std::span<const int> nodes);

// The state that an implementation keeps of a communication in flight.
class Operation {
 public:
  virtual ~Operation() = default;
  virtual void wait() = 0;
};

// A communication in flight. Until wait() returns, its sources must not change and its destinations must not be
// touched; ops issued after wait() see the result. A request destroyed without wait() is abandoned, which is only
// allowed on the way out of a failed run.
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
  // This class itself is a group of one rank, on every backend: it moves nothing.
  Group(std::string name, int rank, int size, CommRecord& record)
      : name_(std::move(name)), rank_(rank), size_(size), record_(&record) {}
  virtual ~Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  const std::string& name() const { return name_; }  // its purpose: "tensor", "data"
  int rank() const { return rank_; }                 // within this group
  int size() const { return size_; }

  // Replaces x by its sum or maximum over the ranks.
  [[nodiscard]] Request start_all_reduce(const Tensor& x, Reduction = Reduction::sum);
  // whole [N * n] = the parts [n] of all ranks in rank order. part may be its own piece of whole.
  [[nodiscard]] Request start_all_gather(const Tensor& whole, const Tensor& part);
  // part [n] = the sum over the ranks of piece rank() of their whole [N * n]. part may be its own piece of whole, the
  // rest of which is then undefined.
  [[nodiscard]] Request start_reduce_scatter(const Tensor& part, const Tensor& whole);
  // Piece r of `from`, sends[r] elements, becomes piece rank() of rank r's `to`, whose recvs[rank()] must equal
  // sends[r]. Pieces are in rank order without gaps; `to` and `from` must not overlap. Empty counts: equal pieces.
  [[nodiscard]] Request start_all_to_all(const Tensor& to, const Tensor& from, std::vector<int64_t> sends = {},
                                         std::vector<int64_t> recvs = {});
  [[nodiscard]] Request start_broadcast(const Tensor& x, int root);
  // Only in a pair. Any number may be in flight at once, in both directions; a send may wait until its receive is
  // started.
  [[nodiscard]] Request start_send(const Tensor& x, int to);
  [[nodiscard]] Request start_recv(const Tensor& x, int from);

  void all_reduce(const Tensor& x, Reduction r = Reduction::sum) { start_all_reduce(x, r).wait(); }
  void all_gather(const Tensor& whole, const Tensor& part) { start_all_gather(whole, part).wait(); }
  void reduce_scatter(const Tensor& part, const Tensor& whole) { start_reduce_scatter(part, whole).wait(); }
  void all_to_all(const Tensor& to, const Tensor& from) { start_all_to_all(to, from).wait(); }
  void broadcast(const Tensor& x, int root) { start_broadcast(x, root).wait(); }

  // Exchange small host values that steer the run: losses, counts, flags, names. All ranks get the same bits. The bytes
  // are counted as kind `host`: numbers twice, up and down the tree; a text by the rank that gave it, once for each
  // rank that receives it. The maximum of NaN and anything is NaN.
  void all_reduce(std::span<double> values, Reduction = Reduction::sum);
  void all_reduce(std::span<uint64_t> values);  // sums modulo 2^64
  std::string broadcast(const std::string& mine, int root);
  // Returns the texts of all ranks on the root, in rank order and of any length; on other ranks an empty list.
  std::vector<std::string> gather(const std::string& mine, int root = 0);
  // Returns the texts of all ranks on every rank. Memory and traffic of each rank grow with the number of ranks, so
  // this is only for what all of them need to know.
  std::vector<std::string> all_gather(const std::string& mine);
  void barrier();
  // Returns the lowest rank whose `mine` is true; -1 when none is.
  int lowest_with(bool mine);

 protected:
  // start() and exchange() are only called on groups of more than one rank.
  virtual std::unique_ptr<Operation> start(const CommCall&);
  // Sends and receives all of these messages and then returns. Messages from one rank to another arrive in order; each
  // has a matching receive of as many bytes, and none is empty.
  virtual void exchange(std::span<const HostMessage>);
  // Called before each communication of host values, with the bytes counted for it. Returns false when there are no
  // other ranks (counting); every rank is then taken to have given the same values as this one.
  virtual bool host_values_travel(int64_t) { return true; }
  // Calls exchange() of another group of the same ranks, for backends that do not carry host values themselves.
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
  std::vector<int> nodes_;  // of each rank; empty: all are on one node
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
  // Traffic and current activity of this rank. Groups refer to it, so they must not outlive the world.
  CommRecord& record() { return record_; }

  // Sets the nodes of the ranks, equal on all of them; before, all are on one. Groups count by what is set when they
  // are created.
  void set_nodes(NodeMap nodes) { nodes_ = std::move(nodes); }
  const NodeMap& nodes() const { return nodes_; }
  // Sets the device on which the tensors of all groups live from now on; before, that is the host. `ops` must outlive
  // the use of the world.
  virtual void attach(Ops&) {}
  // Creates a group of these world ranks for collectives (not for send and receive). `ranks` is ascending and contains
  // this rank. Called by each of them; all make these calls in the same order.
  std::shared_ptr<Group> group(const std::string& name, const std::vector<int>& ranks);
  // The same for host values alone, without what moving tensors needs, such as a communicator of GPUs.
  std::shared_ptr<Group> host_group(const std::string& name, const std::vector<int>& ranks);
  // Creates a pair of two world ranks, ascending, for send and receive and for host values. A message that is waited
  // for only delays later ones in its direction. Called by both ranks; ranks with several pairs create them in a common
  // order, for example sorted.
  std::shared_ptr<Group> pair(const std::string& name, const std::vector<int>& ranks);
  // Whether any number of collectives may be in flight at no cost in memory.
  virtual bool queues_collectives() const { return true; }
  // Advances the communications in flight without waiting, for backends where data moves only inside calls: called
  // between long computations, by the thread that communicates. Throws CommError when one in flight has failed.
  virtual void progress() {}
  // Disconnects this rank: returns when all ranks have called it. The groups of this world must not be used afterwards.
  virtual void disconnect() {}

 protected:
  // Creates a group of more than one rank; `rank` is this rank's index in `ranks`.
  virtual std::shared_ptr<Group> make_group(const std::string& name, const std::vector<int>& ranks, int rank);
  // Creates a group for host_group(); overridden where it needs less than other groups.
  virtual std::shared_ptr<Group> make_host_group(const std::string& name, const std::vector<int>& ranks, int rank) {
    return make_group(name, ranks, rank);
  }
  // Creates a pair; overridden where send and receive need more than a group has.
  virtual std::shared_ptr<Group> make_pair(const std::string& name, const std::vector<int>& ranks, int rank) {
    return make_group(name, ranks, rank);
  }

 private:
  using Make = std::shared_ptr<Group> (World::*)(const std::string&, const std::vector<int>&, int);
  std::shared_ptr<Group> made_by(Make, const std::string& name, const std::vector<int>& ranks);
  std::vector<int> nodes_of(const std::vector<int>& ranks) const;

  int rank_, size_;
  NodeMap nodes_;
  CommRecord record_;
};

}  // namespace fp
