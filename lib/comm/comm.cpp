#include "comm/comm.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "comm/host_reduce.h"

namespace fp {
namespace {

class Waiting {
 public:
  Waiting(CommRecord& record, const CommRecord::Entry& e) : record_(record) { record_.begin_wait(e); }
  ~Waiting() { record_.end_wait(); }

 private:
  CommRecord& record_;
};

}  // namespace

void Request::wait() {
  if (!operation_) return;
  const Waiting waiting(*record_, entry_);
  operation_->wait();
  operation_.reset();
}

int64_t sent_elements(const CommCall& call, int rank, int size) {
  switch (call.kind) {
    case CommKind::all_reduce: {
      const int64_t n = call.to.elements(), mine = deal(n, size, rank).count;
      return n - mine + mine * (size - 1);
    }
    case CommKind::all_gather:
      return call.from.elements() * (size - 1);
    case CommKind::reduce_scatter:
      return call.to.elements() * (size - 1);
    case CommKind::all_to_all:
      return call.from.elements() - call.sends[static_cast<size_t>(rank)];
    case CommKind::broadcast:
      // A chain or a tree sends the data on once from every rank but the last; counted at the root.
      return rank == call.peer ? call.to.elements() * (size - 1) : 0;
    case CommKind::send:
      return call.from.elements();
    case CommKind::recv:
    case CommKind::host:
      return 0;
  }
  return 0;
}

Request Group::issue(const CommCall& call) {
  const bool message = call.kind == CommKind::send || call.kind == CommKind::recv;
  FP_CHECK(message == pair_, "group {}: {} on {}", name_, name_of(call.kind), pair_ ? "a pair" : "what is no pair");
  const CommRecord::Entry entry{name_, call.kind, ++sequence_};
  const DType dtype = call.from ? call.from.dtype : call.to.dtype;
  record_->count(entry, sent_elements(call, rank_, size_) * static_cast<int64_t>(size_of(dtype)));
  const Waiting waiting(*record_, entry);
  return {record_, entry, start(call)};
}

Request Group::start_all_reduce(const Tensor& x, Reduction r) {
  if (size_ == 1) return {};
  FP_CHECK(x.dtype == DType::f32 || x.dtype == DType::bf16, "all_reduce of {}", name_of(x.dtype));
  return issue({CommKind::all_reduce, x, x, r, -1, {}, {}});
}

Request Group::start_all_gather(const Tensor& whole, const Tensor& part) {
  const int64_t n = part.elements();
  FP_CHECK(whole.elements() == n * size_ && whole.dtype == part.dtype, "all_gather of {} into {} on {} ranks",
           part.shape.str(), whole.shape.str(), size_);
  FP_CHECK(size_ > 1 || whole.data == part.data, "all_gather on one rank from elsewhere");
  if (size_ == 1) return {};
  return issue({CommKind::all_gather, whole, part, Reduction::sum, -1, {}, {}});
}

Request Group::start_reduce_scatter(const Tensor& part, const Tensor& whole) {
  const int64_t n = part.elements();
  FP_CHECK(whole.elements() == n * size_ && whole.dtype == part.dtype, "reduce_scatter of {} into {} on {} ranks",
           whole.shape.str(), part.shape.str(), size_);
  FP_CHECK(part.dtype == DType::f32 || part.dtype == DType::bf16, "reduce_scatter of {}", name_of(part.dtype));
  FP_CHECK(size_ > 1 || whole.data == part.data, "reduce_scatter on one rank to elsewhere");
  if (size_ == 1) return {};
  return issue({CommKind::reduce_scatter, part, whole, Reduction::sum, -1, {}, {}});
}

Request Group::start_all_to_all(const Tensor& to, const Tensor& from, std::vector<int64_t> sends,
                                std::vector<int64_t> recvs) {
  const auto ranks = static_cast<size_t>(size_);
  if (sends.empty()) sends.assign(ranks, from.elements() / size_);
  if (recvs.empty()) recvs.assign(ranks, to.elements() / size_);
  const auto total = [](const std::vector<int64_t>& v) { return std::accumulate(v.begin(), v.end(), int64_t{0}); };
  FP_CHECK(sends.size() == ranks && recvs.size() == ranks && total(sends) == from.elements() &&
               total(recvs) == to.elements() && to.dtype == from.dtype,
           "all_to_all of {} to {} on {} ranks does not add up", from.shape.str(), to.shape.str(), size_);
  FP_CHECK(size_ > 1 || to.data == from.data, "all_to_all on one rank to elsewhere");
  if (size_ == 1) return {};
  FP_CHECK(from.data != to.data || from.elements() == 0, "all_to_all in place on {} ranks", size_);
  return issue({CommKind::all_to_all, to, from, Reduction::sum, -1, std::move(sends), std::move(recvs)});
}

Request Group::start_broadcast(const Tensor& x, int root) {
  if (size_ == 1) return {};
  return issue({CommKind::broadcast, x, x, Reduction::sum, root, {}, {}});
}

Request Group::start_send(const Tensor& x, int to) {
  FP_CHECK(to >= 0 && to < size_ && to != rank_, "send from {} to {} of {}", rank_, to, size_);
  return issue({CommKind::send, {}, x, Reduction::sum, to, {}, {}});
}

Request Group::start_recv(const Tensor& x, int from) {
  FP_CHECK(from >= 0 && from < size_ && from != rank_, "receive of {} from {} of {}", rank_, from, size_);
  return issue({CommKind::recv, x, {}, Reduction::sum, from, {}, {}});
}

void Group::gather_host(std::span<std::byte> all, std::span<const std::byte> mine) {
  const CommRecord::Entry entry{name_, CommKind::host, ++sequence_};
  record_->count(entry, static_cast<int64_t>(mine.size()) * (size_ - 1));
  const Waiting waiting(*record_, entry);
  gather_bytes(all, mine);
}

void Group::all_reduce(std::span<double> values, Reduction r) {
  if (size_ == 1 || values.empty()) return;
  std::vector<double> all(values.size() * static_cast<size_t>(size_));
  gather_host(std::as_writable_bytes(std::span(all)), std::as_bytes(values));
  std::copy_n(all.begin(), values.size(), values.begin());
  for (size_t i = values.size(); i < all.size(); ++i) {
    double& v = values[i % values.size()];
    v = r == Reduction::sum ? v + all[i] : std::max(v, all[i]);
  }
}

std::vector<std::string> Group::all_gather(const std::string& mine) {
  if (size_ == 1) return {mine};
  std::vector<uint64_t> lengths(static_cast<size_t>(size_));
  const uint64_t length = mine.size();
  gather_host(std::as_writable_bytes(std::span(lengths)), std::as_bytes(std::span(&length, 1)));
  const size_t longest = *std::max_element(lengths.begin(), lengths.end());
  std::string padded = mine, all(longest * static_cast<size_t>(size_), '\0');
  padded.resize(longest);
  if (longest > 0) gather_host(std::as_writable_bytes(std::span(all)), std::as_bytes(std::span(padded)));
  std::vector<std::string> texts;
  for (size_t r = 0; r < lengths.size(); ++r) texts.push_back(all.substr(r * longest, lengths[r]));
  return texts;
}

std::string Group::broadcast(const std::string& mine, int root) {
  return all_gather(rank_ == root ? mine : std::string())[static_cast<size_t>(root)];
}

void Group::barrier() {
  double nothing = 0;
  all_reduce(std::span(&nothing, 1));
}

std::unique_ptr<Operation> Group::start(const CommCall& call) {
  throw InternalError(fmt::format("{} on a group of one", name_of(call.kind)));
}

void Group::gather_bytes(std::span<std::byte>, std::span<const std::byte>) {
  throw InternalError("host values of a group of one");
}

std::shared_ptr<Group> World::group(const std::string& name, const std::vector<int>& ranks) {
  const auto mine = std::find(ranks.begin(), ranks.end(), rank_);
  FP_CHECK(std::is_sorted(ranks.begin(), ranks.end()) && mine != ranks.end(), "group {} of other ranks than {}", name,
           rank_);
  if (ranks.size() == 1) return std::make_shared<Group>(name, 0, 1, record_);
  return make_group(name, ranks, static_cast<int>(mine - ranks.begin()));
}

std::shared_ptr<Group> World::pair(const std::string& name, const std::vector<int>& ranks) {
  FP_CHECK(ranks.size() == 2 && ranks[0] < ranks[1] && (ranks[0] == rank_ || ranks[1] == rank_),
           "pair {} of rank {}: not two ranks, ascending, of which it is one", name, rank_);
  std::shared_ptr<Group> made = make_pair(name, ranks, ranks[0] == rank_ ? 0 : 1);
  made->pair_ = true;
  return made;
}

std::shared_ptr<Group> World::make_group(const std::string& name, const std::vector<int>&, int) {
  throw InternalError(fmt::format("group {} of several ranks in a world of one", name));
}

}  // namespace fp
