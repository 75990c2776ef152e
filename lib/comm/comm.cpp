#include "comm/comm.h"

#include <algorithm>
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
      const int64_t n = call.to.elements(), mine = split_evenly(n, size, rank).count;
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

UnevenPieces uneven_pieces(const CommCall& call) {
  const auto equal = [](const std::vector<int64_t>& v) {
    return std::ranges::all_of(v, [&](int64_t n) { return n == v.front(); });
  };
  if (call.kind != CommKind::all_to_all || (equal(call.sends) && equal(call.recvs))) return {};
  UnevenPieces pieces{call.sends, call.recvs};
  for (std::vector<int64_t>* v : {&pieces.sends, &pieces.recvs})
    for (int64_t& n : *v) n *= static_cast<int64_t>(size_of(call.from.dtype));
  return pieces;
}

int64_t sent_between_nodes(const CommCall& call, int rank, int size, std::span<const int> nodes) {
  if (nodes.empty()) return 0;
  const auto leaves = [&](int from, int to) {
    return nodes[static_cast<size_t>(from)] != nodes[static_cast<size_t>(to)];
  };
  switch (call.kind) {
    case CommKind::all_reduce:
    case CommKind::all_gather:
    case CommKind::reduce_scatter:
      return leaves(rank, (rank + 1) % size) ? sent_elements(call, rank, size) : 0;
    case CommKind::all_to_all: {
      int64_t sum = 0;
      for (int to = 0; to < size; ++to) sum += leaves(rank, to) ? call.sends[static_cast<size_t>(to)] : 0;
      return sum;
    }
    case CommKind::broadcast: {
      int64_t hops = 0;
      for (int i = 0; i + 1 < size; ++i) hops += leaves((call.peer + i) % size, (call.peer + i + 1) % size);
      return rank == call.peer ? call.to.elements() * hops : 0;
    }
    case CommKind::send:
      return leaves(rank, call.peer) ? call.from.elements() : 0;
    case CommKind::recv:
    case CommKind::host:
      return 0;
  }
  return 0;
}

Request Group::issue(const CommCall& call) {
  const bool message = call.kind == CommKind::send || call.kind == CommKind::recv;
  FP_CHECK(message == pair_, "group {}: {} on {}", name_, name_of(call.kind),
           pair_ ? "a pair" : "a group that is no pair");
  const CommRecord::Entry entry{name_, call.kind, ++sequence_};
  const DType dtype = call.from ? call.from.dtype : call.to.dtype;
  const auto bytes = static_cast<int64_t>(size_of(dtype));
  record_->count(entry, sent_elements(call, rank_, size_) * bytes,
                 sent_between_nodes(call, rank_, size_, nodes_) * bytes);
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
  FP_CHECK(size_ > 1 || whole.data == part.data, "all_gather on one rank must be in place");
  if (size_ == 1) return {};
  return issue({CommKind::all_gather, whole, part, Reduction::sum, -1, {}, {}});
}

Request Group::start_reduce_scatter(const Tensor& part, const Tensor& whole) {
  const int64_t n = part.elements();
  FP_CHECK(whole.elements() == n * size_ && whole.dtype == part.dtype, "reduce_scatter of {} into {} on {} ranks",
           whole.shape.str(), part.shape.str(), size_);
  FP_CHECK(part.dtype == DType::f32 || part.dtype == DType::bf16, "reduce_scatter of {}", name_of(part.dtype));
  FP_CHECK(size_ > 1 || whole.data == part.data, "reduce_scatter on one rank must be in place");
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
  FP_CHECK(size_ > 1 || to.data == from.data, "all_to_all on one rank must be in place");
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

CommRecord::Entry Group::next_host_call(int64_t sent) {
  const CommRecord::Entry entry{name_, CommKind::host, ++sequence_};
  record_->count(entry, sent);
  return entry;
}

void Group::exchange_some(std::vector<HostMessage> messages) {
  std::erase_if(messages, [](const HostMessage& m) { return m.bytes == 0; });
  if (!messages.empty()) exchange(messages);
}

// Broadcasts the root's bytes down the tree into the same buffer of all others.
void Group::send_down(const HostTree& tree, std::span<std::byte> bytes) {
  const auto size = static_cast<int64_t>(bytes.size());
  if (tree.parent() >= 0) exchange_some({{false, tree.parent(), bytes.data(), size}});
  std::vector<HostMessage> messages;
  for (const HostTree::Child& c : tree.children()) messages.push_back({true, c.rank, bytes.data(), size});
  exchange_some(std::move(messages));
}

// Each rank combines its values with those received from its children, smallest first; all get the root's result.
template <class T, class Combine>
void Group::reduce_on_tree(std::span<T> values, const Combine& combine) {
  const HostTree tree(rank_, size_, 0);
  const std::span<std::byte> own = std::as_writable_bytes(values);
  const auto size = static_cast<int64_t>(own.size());
  std::vector<T> parts(values.size() * tree.children().size());
  std::vector<HostMessage> messages;
  for (size_t c = 0; c < tree.children().size(); ++c) {
    T* part = parts.data() + c * values.size();
    messages.push_back({false, tree.children()[c].rank, reinterpret_cast<std::byte*>(part), size});
  }
  exchange_some(std::move(messages));
  for (size_t i = 0; i < parts.size(); ++i) {
    T& value = values[i % values.size()];
    value = combine(value, parts[i]);
  }
  if (tree.parent() >= 0) exchange_some({{true, tree.parent(), own.data(), size}});
  send_down(tree, own);
}

void Group::all_reduce(std::span<double> values, Reduction r) {
  if (size_ == 1 || values.empty()) return;
  const auto bytes = 2 * static_cast<int64_t>(values.size_bytes());
  const Waiting waiting(*record_, next_host_call(bytes));
  const bool sum = r == Reduction::sum;
  if (!host_values_travel(bytes)) {
    for (double& v : values) v *= sum ? size_ : 1;
  } else if (sum) {
    reduce_on_tree(values, [](double a, double b) { return a + b; });
  } else {
    reduce_on_tree(values, [](double a, double b) { return b > a || b != b ? b : a; });
  }
}

void Group::all_reduce(std::span<uint64_t> values) {
  if (size_ == 1 || values.empty()) return;
  const auto bytes = 2 * static_cast<int64_t>(values.size_bytes());
  const Waiting waiting(*record_, next_host_call(bytes));
  if (host_values_travel(bytes))
    reduce_on_tree(values, [](uint64_t a, uint64_t b) { return a + b; });
  else
    for (uint64_t& v : values) v *= static_cast<uint64_t>(size_);
}

namespace {

std::span<std::byte> bytes_of(std::string& text) { return std::as_writable_bytes(std::span(text)); }

}  // namespace

std::string Group::broadcast(const std::string& mine, int root) {
  if (size_ == 1) return mine;
  const int64_t sent = rank_ == root ? static_cast<int64_t>(mine.size()) * (size_ - 1) : 0;
  const Waiting waiting(*record_, next_host_call(sent));
  if (!host_values_travel(sent)) return mine;
  const HostTree tree(rank_, size_, root);
  uint64_t length = mine.size();
  send_down(tree, std::as_writable_bytes(std::span(&length, 1)));
  std::string text = rank_ == root ? mine : std::string(length, '\0');
  send_down(tree, bytes_of(text));
  return text;
}

// Concatenated texts of this rank's subtree, in order of place.
struct Group::Texts {
  std::vector<uint64_t> lengths;
  std::string all;

  // Returns the texts of a whole group in rank order.
  std::vector<std::string> split(int root) const {
    std::vector<std::string> texts(lengths.size());
    size_t at = 0;
    for (size_t place = 0; place < lengths.size(); ++place) {
      texts[(place + static_cast<size_t>(root)) % lengths.size()] = all.substr(at, lengths[place]);
      at += lengths[place];
    }
    return texts;
  }
};

Group::Texts Group::gather_on_tree(const std::string& mine, int root) {
  const HostTree tree(rank_, size_, root);
  Texts texts{std::vector<uint64_t>(static_cast<size_t>(tree.count())), mine};
  texts.lengths[0] = mine.size();
  const auto lengths_of = [&](int first, int count) {
    return std::span(texts.lengths).subspan(static_cast<size_t>(first - tree.first()), static_cast<size_t>(count));
  };
  const auto message = [](bool send, int peer, std::span<std::byte> bytes) {
    return HostMessage{send, peer, bytes.data(), static_cast<int64_t>(bytes.size())};
  };
  std::vector<HostMessage> lengths, contents;
  for (const HostTree::Child& c : tree.children())
    lengths.push_back(message(false, c.rank, std::as_writable_bytes(lengths_of(c.first, c.count))));
  exchange_some(std::move(lengths));
  texts.all.resize(std::accumulate(texts.lengths.begin(), texts.lengths.end(), size_t{0}));
  std::span<std::byte> space = bytes_of(texts.all).subspan(mine.size());
  for (const HostTree::Child& c : tree.children()) {
    const std::span<uint64_t> of_child = lengths_of(c.first, c.count);
    const size_t bytes = std::accumulate(of_child.begin(), of_child.end(), size_t{0});
    contents.push_back(message(false, c.rank, space.first(bytes)));
    space = space.subspan(bytes);
  }
  exchange_some(std::move(contents));
  if (tree.parent() >= 0) {
    exchange_some({message(true, tree.parent(), std::as_writable_bytes(std::span(texts.lengths)))});
    exchange_some({message(true, tree.parent(), bytes_of(texts.all))});
  }
  return texts;
}

std::vector<std::string> Group::gather(const std::string& mine, int root) {
  if (size_ == 1) return {mine};
  const bool is_root = rank_ == root;
  const auto sent = is_root ? 0 : static_cast<int64_t>(mine.size());
  const Waiting waiting(*record_, next_host_call(sent));
  if (!host_values_travel(sent)) return std::vector<std::string>(is_root ? static_cast<size_t>(size_) : 0, mine);
  const Texts texts = gather_on_tree(mine, root);
  return is_root ? texts.split(root) : std::vector<std::string>();
}

std::vector<std::string> Group::all_gather(const std::string& mine) {
  if (size_ == 1) return {mine};
  const auto sent = static_cast<int64_t>(mine.size()) * (size_ - 1);
  const Waiting waiting(*record_, next_host_call(sent));
  if (!host_values_travel(sent)) return std::vector<std::string>(static_cast<size_t>(size_), mine);
  const HostTree tree(rank_, size_, 0);
  Texts texts = gather_on_tree(mine, 0);
  texts.lengths.resize(static_cast<size_t>(size_));
  send_down(tree, std::as_writable_bytes(std::span(texts.lengths)));
  texts.all.resize(std::accumulate(texts.lengths.begin(), texts.lengths.end(), size_t{0}));
  send_down(tree, bytes_of(texts.all));
  return texts.split(0);
}

void Group::barrier() {
  double nothing = 0;
  all_reduce(std::span(&nothing, 1));
}

int Group::lowest_with(bool mine) {
  double behind = mine ? size_ - rank_ : 0;
  all_reduce(std::span(&behind, 1), Reduction::max);
  return behind > 0 ? size_ - static_cast<int>(behind) : -1;
}

std::unique_ptr<Operation> Group::start(const CommCall& call) {
  throw InternalError(
      fmt::format("group {}: {} on one rank, or on a group for host values", name_, name_of(call.kind)));
}

void Group::exchange(std::span<const HostMessage>) { throw InternalError("host values of a group of one"); }

std::shared_ptr<Group> World::group(const std::string& name, const std::vector<int>& ranks) {
  return made_by(&World::make_group, name, ranks);
}

std::shared_ptr<Group> World::host_group(const std::string& name, const std::vector<int>& ranks) {
  return made_by(&World::make_host_group, name, ranks);
}

std::shared_ptr<Group> World::made_by(Make make, const std::string& name, const std::vector<int>& ranks) {
  const auto mine = std::find(ranks.begin(), ranks.end(), rank_);
  FP_CHECK(std::is_sorted(ranks.begin(), ranks.end()) && mine != ranks.end(),
           "group {}: expected ascending world ranks that include {}", name, rank_);
  if (ranks.size() == 1) return std::make_shared<Group>(name, 0, 1, record_);
  std::shared_ptr<Group> made = (this->*make)(name, ranks, static_cast<int>(mine - ranks.begin()));
  made->nodes_ = nodes_of(ranks);
  return made;
}

std::shared_ptr<Group> World::pair(const std::string& name, const std::vector<int>& ranks) {
  FP_CHECK(ranks.size() == 2 && ranks[0] < ranks[1] && (ranks[0] == rank_ || ranks[1] == rank_),
           "pair {}: expected two ascending world ranks that include {}", name, rank_);
  std::shared_ptr<Group> made = make_pair(name, ranks, ranks[0] == rank_ ? 0 : 1);
  made->pair_ = true;
  made->nodes_ = nodes_of(ranks);
  return made;
}

std::vector<int> World::nodes_of(const std::vector<int>& ranks) const {
  std::vector<int> nodes;
  for (const int r : ranks) nodes.push_back(nodes_.node_of(r));
  if (std::ranges::all_of(nodes, [&](int n) { return n == nodes.front(); })) nodes.clear();
  return nodes;
}

std::shared_ptr<Group> World::make_group(const std::string& name, const std::vector<int>&, int) {
  throw InternalError(fmt::format("group {} of several ranks in a world of one", name));
}

}  // namespace fp
