// Pairs: messages in both directions, several in flight, receives posted ahead.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <set>

#include "comm/values.h"

namespace fp::test {
namespace {

// A pair of this rank, with the world rank at its other end.
struct Edge {
  std::shared_ptr<fp::Group> pair;
  int other;
  fp::Request send(const fp::Tensor& x) const { return pair->start_send(x, 1 - pair->rank()); }
  fp::Request recv(const fp::Tensor& x) const { return pair->start_recv(x, 1 - pair->rank()); }
};

// Returns this rank's pairs among (0,1), (0,p-1), (1,2), ..., in this order.
std::vector<Edge> ring_edges(fp::World& world) {
  std::set<std::pair<int, int>> all;
  for (int r = 0; r + 1 < world.size(); ++r) all.insert({r, r + 1});
  if (world.size() > 1) all.insert({0, world.size() - 1});
  std::vector<Edge> mine;
  for (const auto& [low, high] : all)
    if (low == world.rank() || high == world.rank())
      mine.push_back({world.pair(fmt::format("edge {}-{}", low, high), {low, high}), low + high - world.rank()});
  return mine;
}

// Messages in both directions of an edge at once: message k of each has sizes[k] elements and distinct values.
template <class T>
class Exchange {
 public:
  Exchange(const fp::World& world, const Edge& edge, const std::vector<int64_t>& sizes)
      : edge_(edge), sizes_(sizes), sends_(sizes.size()), recvs_(sizes.size()) {
    for (size_t k = 0; k < sizes.size(); ++k) {
      out_.emplace_back(sizes[k], world.rank(), first_of(edge.other, k));
      in_.emplace_back(sizes[k]);
    }
  }
  void send(size_t k) { sends_[k] = edge_.send(out_[k].tensor()); }
  void recv(size_t k) { recvs_[k] = edge_.recv(in_[k].tensor()); }
  void wait(size_t k) {
    sends_[k].wait();
    recvs_[k].wait();
  }
  void expect(Findings& f, const fp::World& world) {
    for (size_t k = 0; k < sizes_.size(); ++k)
      in_[k].expect(f, world, fmt::format("message {} from {}", k, edge_.other), 0, sizes_[k],
                    [&](int64_t i) { return value<T>(edge_.other, first_of(world.rank(), k) + i); });
  }

 private:
  static int64_t first_of(int to, size_t k) { return 100000 * to + 1000 * static_cast<int64_t>(k); }

  Edge edge_;
  std::vector<int64_t> sizes_;
  std::vector<Buffer<T>> out_, in_;
  std::vector<fp::Request> sends_, recvs_;
};

template <class T>
std::vector<Exchange<T>> exchanges_of(const fp::World& world, const std::vector<Edge>& edges,
                                      const std::vector<int64_t>& sizes) {
  std::vector<Exchange<T>> made;
  for (const Edge& e : edges) made.emplace_back(world, e, sizes);
  return made;
}

// In `mixed`, ranks with an odd number send first and the others receive first.
enum Order { receives_first, sends_first, mixed, kOrders };

template <class T>
void exchange_on_all_edges(fp::World& world, Findings& f, const std::vector<int64_t>& sizes) {
  const std::vector<Edge> edges = ring_edges(world);
  for (int order = 0; order < kOrders; ++order)
    for (const bool backwards : {false, true}) {
      auto exchanges = exchanges_of<T>(world, edges, sizes);
      const bool receives = order == receives_first || (order == mixed && world.rank() % 2 == 0);
      for (size_t k = 0; k < sizes.size(); ++k)
        for (auto& e : exchanges) receives ? e.recv(k) : e.send(k);
      for (size_t k = 0; k < sizes.size(); ++k)
        for (auto& e : exchanges) receives ? e.send(k) : e.recv(k);
      for (size_t k = 0; k < sizes.size(); ++k)
        for (auto& e : exchanges) e.wait(backwards ? sizes.size() - 1 - k : k);
      for (auto& e : exchanges) e.expect(f, world);
    }
}

TEST_CASE("pairs: messages of a direction keep their order, in whatever order they are started and waited for") {
  on_ranks([](fp::World& world, Findings& f) {
    exchange_on_all_edges<float>(world, f, {1, 3, 20011});
    exchange_on_all_edges<fp::bf16>(world, f, {40001, 2, 0});
    exchange_on_all_edges<int32_t>(world, f, {77, 78});
  });
}

TEST_CASE("pairs: three messages of up to several MiB are always in flight in each direction") {
  on_ranks([](fp::World& world, Findings& f) {
    const std::vector<int64_t> sizes{1, (3 << 18) + 1, 5, 1 << 18, 70001, 2, 1000};
    constexpr size_t kUnderWay = 3;
    auto exchanges = exchanges_of<float>(world, ring_edges(world), sizes);
    for (size_t k = 0; k < sizes.size() + kUnderWay; ++k)
      for (auto& e : exchanges) {
        if (k < sizes.size()) e.recv(k);
        if (k < sizes.size()) e.send(k);
        if (k >= kUnderWay) e.wait(k - kUnderWay);
      }
    for (auto& e : exchanges) e.expect(f, world);
  });
}

TEST_CASE("pairs: a receive posted ahead does not block other pairs") {
  on_ranks([](fp::World& world, Findings& f) {
    const int me = world.rank(), last = world.size() - 1;
    if (last < 2) return;
    const int previous = (me + last) % (last + 1), next = (me + 1) % (last + 1);
    const std::vector<Edge> edges = ring_edges(world);
    const auto edge_to = [&](int rank) {
      return *std::find_if(edges.begin(), edges.end(), [&](const Edge& e) { return e.other == rank; });
    };
    const int64_t n = 30011;
    Buffer<float> out(n, me), in(n);
    // The message round the ring starts at the last rank but one, which has posted its final receive before.
    fp::Request recv = edge_to(previous).recv(in.tensor());
    if (me != last - 1) recv.wait();
    fp::Request send = edge_to(next).send(out.tensor());
    recv.wait();
    send.wait();
    in.expect(f, world, "round", 0, n, [&](int64_t i) { return value<float>(previous, i); });
  });
}

TEST_CASE("pairs: messages of two pairs with the same ranks and name do not mix") {
  on_ranks([](fp::World& world, Findings& f) {
    if (world.size() < 2 || world.rank() > 1) return;
    const Edge one{world.pair("same", {0, 1}), 1 - world.rank()}, two{world.pair("same", {0, 1}), one.other};
    auto a = exchanges_of<float>(world, {one}, {9, 10}), b = exchanges_of<float>(world, {two}, {10, 9});
    auto &first = world.rank() == 0 ? a[0] : b[0], &second = world.rank() == 0 ? b[0] : a[0];
    for (auto* e : {&first, &second})
      for (const size_t k : {0, 1}) e->send(k), e->recv(k);
    for (auto* e : {&first, &second})
      for (const size_t k : {0, 1}) e->wait(k);
    a[0].expect(f, world);
    b[0].expect(f, world);
  });
}

TEST_CASE("pairs: sends are counted under the pair's name, and host values work") {
  on_ranks([](fp::World& world, Findings& f) {
    const int me = world.rank();
    if ((me ^ 1) >= world.size()) return;
    const auto pair = world.pair("stages", {me & ~1, me | 1});
    world.record().reset_traffic();
    Buffer<fp::bf16> x(1000, me);
    for (int k = 0; k < 2; ++k)
      (pair->rank() == 0 ? pair->start_send(x.tensor(), 1) : pair->start_recv(x.tensor(), 0)).wait();
    const auto texts = pair->all_gather(std::to_string(pair->rank()));
    f.expect(texts == std::vector<std::string>{"0", "1"}, "{} and {}", texts[0], texts[1]);
    const fp::TrafficTable t = world.record().traffic();
    const bool sends = pair->rank() == 0;
    const auto found = t.find({"stages", sends ? fp::CommKind::send : fp::CommKind::recv});
    f.expect(found != t.end() && found->second == fp::Traffic{2, sends ? 4000 : 0}, "rank {} counts otherwise", me);
  });
}

TEST_CASE("pairs: a message arrives at a rank that only makes progress") {
  on_ranks([](fp::World& world, Findings& f) {
    const int me = world.rank(), other = me ^ 1;
    if (other >= world.size()) return;
    const auto pair = world.pair("stages", {me & ~1, me | 1});
    const int64_t n = 1 << 20;
    Buffer<float> x = me < other ? Buffer<float>(n, me) : Buffer<float>(n);
    fp::Request request = me < other ? pair->start_send(x.tensor(), 1) : pair->start_recv(x.tensor(), 0);
    const auto arrived = [&] { return x[n - 1] == value<float>(other, n - 1); };
    if (me > other && world.backend() == "mpi") {
      while (!arrived()) world.progress();  // the test's time limit ends it when progress() moves nothing
    }
    world.progress();  // harmless in any world
    pair->barrier();
    request.wait();
    if (me > other) x.expect(f, world, "progress", 0, n, [&](int64_t i) { return value<float>(other, i); });
  });
}

// Returns whether the call throws an InternalError that contains `word`.
template <class Call>
bool refused(Call&& call, const char* word) {
  try {
    call();
  } catch (const fp::InternalError& e) {
    return std::string(e.what()).find(word) != std::string::npos;
  }
  return false;
}

TEST_CASE("pairs refuse collectives, and groups refuse send and receive") {
  on_ranks([](fp::World& world, Findings& f) {
    if (world.size() < 2 || world.rank() > 1) return;
    const auto group = world.group("both", {0, 1}), pair = world.pair("two", {0, 1});
    Buffer<float> x(4, world.rank()), part(2);
    const int peer = 1 - world.rank();
    f.expect(refused([&] { group->start_send(x.tensor(), peer).wait(); }, "group both: send"), "send");
    f.expect(refused([&] { group->start_recv(x.tensor(), peer).wait(); }, "group both: recv"), "recv");
    f.expect(refused([&] { pair->all_reduce(x.tensor()); }, "group two: all_reduce"), "all_reduce");
    f.expect(refused([&] { pair->all_gather(x.tensor(), part.tensor()); }, "group two: all_gather"), "all_gather");
    f.expect(refused([&] { pair->broadcast(x.tensor(), 0); }, "group two: broadcast"), "broadcast");
    const int me = world.rank();
    for (const std::vector<int>& wrong : {std::vector{me}, {1, 0}, {me, me}, {0, 1, 2}, {8, 9}})
      f.expect(refused([&] { world.pair("odd", wrong); }, "pair odd"), "a pair of {} ranks", wrong.size());
  });
}

}  // namespace
}  // namespace fp::test
