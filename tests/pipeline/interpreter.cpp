#include "interpreter.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <stdexcept>
#include <tuple>

using namespace fp;

namespace fp::test {
namespace {

using Value = uint64_t;                      // a tensor: a hash of everything it was computed from
using Key = std::tuple<int, int, int>;       // pipe, stage, micro-batch
using Channel = std::tuple<int, int, bool>;  // pipe, sending stage, whether forward

struct Fault : std::runtime_error {
  using runtime_error::runtime_error;
};

Value mix(Value a, Value b) {
  Value x = (a ^ (b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2))) * 0xff51afd7ed558ccdu;
  return x ^ (x >> 33);
}
Value forward_of(Key k, Value input) { return mix(mix(static_cast<Value>(std::get<1>(k)), 1), input); }
Value input_gradient_of(Value kept, Value gradient) { return mix(mix(kept, 2), gradient); }
Value weight_gradient_of(Value kept, Value gradient) { return mix(mix(kept, 3), gradient); }
Value sample(Key k) { return mix(static_cast<Value>(std::get<0>(k)) + 11, static_cast<Value>(std::get<2>(k)) + 101); }

// A map of tensors in which overwriting an entry or taking a missing one is a fault.
template <class V>
struct Store : std::map<Key, V> {
  void put(Key k, V value, const char* what) {
    if (!this->emplace(k, value).second) throw Fault(fmt::format("{} is there already", what));
  }
  V take(Key k, const char* what) {
    const auto at = this->find(k);
    if (at == this->end()) throw Fault(fmt::format("{} is not there", what));
    V value = at->second;
    this->erase(at);
    return value;
  }
};

struct Rank {
  size_t next = 0;
  Store<Value> outputs[2];                        // forward, backward: of F and B
  Store<size_t> expected[2];                      // posted receives: their index in the channel
  Store<Value> kept;                              // F to B
  Store<std::pair<Value, Value>> left;            // B to W
  std::map<int, std::multiset<Value>> gradients;  // by stage, since the last reduction
  std::map<int, size_t> whole;                    // stage -> which of the rank's collectives gathered it
  std::vector<std::pair<bool, int>> collectives;  // gather or reduction, stage
};

struct Wire {
  std::vector<Value> sent;
  size_t posted = 0;
};

class Machine {
 public:
  Machine(const Schedule& s, const LoweringOptions& o) : s_(s), o_(o), p_(s.placement), ranks_(s.ranks.size()) {}

  void run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (size_t r = 0; r < ranks_.size(); ++r)
        while (ranks_[r].next < s_.ranks[r].size() && step(r, s_.ranks[r][ranks_[r].next])) {
          ++ranks_[r].next;
          moved = true;
        }
    }
    for (size_t r = 0; r < ranks_.size(); ++r) finish(r);
    check_sums();
  }

 private:
  bool is_last(const Action& a) const { return a.stage == p_.stages() - 1; }
  int at(const Action& a, int further) const { return p_.rank_of(a.pipe, a.stage + further); }
  Wire& wire(int pipe, int stage, bool forward) { return wires_[{pipe, stage, forward}]; }

  // Returns false if the action has to wait.
  bool step(size_t r, const Action& a) {
    if (a.stage < 0 || a.stage >= p_.stages() || a.pipe >= p_.pipes()) throw Fault("no such stage");
    const bool of_batch = is_compute(a.kind) || is_send(a.kind) || is_receive(a.kind);
    if (of_batch && (a.micro_batch < 0 || a.micro_batch >= s_.of_pipe())) throw Fault("no such micro-batch");
    if (of_batch && at(a, 0) != static_cast<int>(r)) throw Fault("the stage is elsewhere");
    if (is_compute(a.kind)) {
      if (!ready(r, a)) return false;
      if (a.paired_with_next) {
        if (ranks_[r].next + 1 == s_.ranks[r].size()) throw Fault("paired with nothing");
        if (!ready(r, s_.ranks[r][ranks_[r].next + 1])) return false;
      }
      compute(ranks_[r], r, a);
      return true;
    }
    if (is_send(a.kind)) return send(ranks_[r], r, a);
    if (is_receive(a.kind)) return receive(ranks_[r], r, a), true;
    return collect(r, a);
  }

  bool ready(size_t r, const Action& a) {
    Rank& rank = ranks_[r];
    if (a.kind == ActionKind::backward_weight) return true;
    if (o_.gather) {
      if (!rank.whole.contains(a.stage)) throw Fault("weights are not there");
      if (p_.two_way && ranks_[mirror(r)].collectives.size() <= rank.whole[a.stage]) return false;
    }
    const bool forward = a.kind == ActionKind::forward;
    if (!comes_from_elsewhere(r, a)) return true;
    const auto place = rank.expected[forward ? 0 : 1].find(key(a));
    if (place == rank.expected[forward ? 0 : 1].end()) throw Fault("nothing was received");
    return wire(a.pipe, a.stage + (forward ? -1 : 1), forward).sent.size() > place->second;
  }

  bool comes_from_elsewhere(size_t r, const Action& a) const {
    const bool forward = a.kind == ActionKind::forward;
    if (forward ? a.stage == 0 : is_last(a)) return false;
    return at(a, forward ? -1 : 1) != static_cast<int>(r);
  }

  // Input of F, or the gradient that B starts from.
  Value input(Rank& rank, size_t r, const Action& a) {
    const bool forward = a.kind == ActionKind::forward;
    if (forward && a.stage == 0) return sample(key(a));
    if (!forward && is_last(a)) return 7;
    const int from = a.stage + (forward ? -1 : 1);
    if (!comes_from_elsewhere(r, a)) return rank.outputs[forward ? 0 : 1].take({a.pipe, from, a.micro_batch}, "input");
    return wire(a.pipe, from, forward).sent[rank.expected[forward ? 0 : 1].take(key(a), "receive")];
  }

  void compute(Rank& rank, size_t r, const Action& a) {
    const Key k = key(a);
    if (a.kind == ActionKind::forward) {
      const Value x = input(rank, r, a);
      rank.kept.put(k, x, "activation");
      if (!is_last(a)) rank.outputs[0].put(k, forward_of(k, x), "output");
    }
    if (a.kind == ActionKind::backward_input || a.kind == ActionKind::backward) {
      const Value x = rank.kept.take(k, "activation"), g = input(rank, r, a);
      if (a.stage > 0) rank.outputs[1].put(k, input_gradient_of(x, g), "gradient");
      rank.left.put(k, {x, g}, "what W needs");
    }
    if (a.kind == ActionKind::backward_weight || a.kind == ActionKind::backward) {
      const auto [x, g] = rank.left.take(k, "what W needs");
      rank.gradients[a.stage].insert(weight_gradient_of(x, g));
    }
  }

  bool send(Rank& rank, size_t r, const Action& a) {
    const bool forward = a.kind == ActionKind::send_forward;
    if (forward ? is_last(a) : a.stage == 0) throw Fault("sent to nobody");
    if (at(a, forward ? 1 : -1) == static_cast<int>(r)) throw Fault("sent to itself");
    Wire& w = wire(a.pipe, a.stage, forward);
    const auto window = static_cast<size_t>(o_.sends_in_flight);
    if (w.sent.size() >= window && w.posted <= w.sent.size() - window) return false;
    w.sent.push_back(rank.outputs[forward ? 0 : 1].take(key(a), "what is sent"));
    return true;
  }

  void receive(Rank& rank, size_t r, const Action& a) {
    const bool forward = a.kind == ActionKind::receive_forward;
    if (forward ? a.stage == 0 : is_last(a)) throw Fault("received from nobody");
    const int from = a.stage + (forward ? -1 : 1);
    if (p_.rank_of(a.pipe, from) == static_cast<int>(r)) throw Fault("received from itself");
    rank.expected[forward ? 0 : 1].put(key(a), wire(a.pipe, from, forward).posted++, "receive");
  }

  // Whether the rank has reached or passed its collective of this number.
  bool has_reached(size_t r, size_t number) const {
    const Rank& rank = ranks_[r];
    if (rank.collectives.size() != number) return rank.collectives.size() > number;
    if (rank.next == s_.ranks[r].size()) return false;
    const ActionKind next = s_.ranks[r][rank.next].kind;
    return next == ActionKind::gather || next == ActionKind::reduce;
  }

  // Ranks that share stages run their collectives in the same order, one at a time, and reductions simultaneously.
  bool collect(size_t r, const Action& a) {
    Rank& rank = ranks_[r];
    if (p_.rank_of(0, a.stage) != static_cast<int>(r) && p_.rank_of(p_.pipes() - 1, a.stage) != static_cast<int>(r))
      throw Fault("the stage is elsewhere");
    if (a.kind == ActionKind::free) {
      if (rank.whole.erase(a.stage) == 0) throw Fault("freed twice");
      return true;
    }
    const bool gather = a.kind == ActionKind::gather;
    if (p_.two_way) {
      const auto& others = ranks_[mirror(r)].collectives;
      const size_t mine = rank.collectives.size();
      if (gather ? others.size() < mine : !has_reached(mirror(r), mine)) return false;
      if (others.size() > mine && others[mine] != std::pair(gather, a.stage))
        throw Fault("the other rank runs another collective");
    }
    if (gather) {
      if (!o_.gather) throw Fault("nothing to gather");
      if (!rank.whole.emplace(a.stage, rank.collectives.size()).second) throw Fault("gathered twice");
      if (static_cast<int>(rank.whole.size()) > o_.resident) throw Fault("too many stages are gathered");
    } else {
      auto& fresh = rank.gradients[a.stage];
      if (fresh.empty()) throw Fault("a sum of nothing");
      summed_[a.stage].insert(fresh.begin(), fresh.end());
      fresh.clear();
    }
    rank.collectives.emplace_back(gather, a.stage);
    return true;
  }

  void finish(size_t r) {
    const Rank& rank = ranks_[r];
    if (rank.next < s_.ranks[r].size()) throw Fault(fmt::format("rank {} waits for ever at {}", r, rank.next));
    for (const int direction : {0, 1})
      if (!rank.outputs[direction].empty() || !rank.expected[direction].empty()) throw Fault("a tensor is left over");
    if (!rank.kept.empty() || !rank.left.empty()) throw Fault("activations are left over");
    if (!rank.whole.empty()) throw Fault("weights are left over");
    for (const auto& [stage, fresh] : rank.gradients)
      if (!fresh.empty()) throw Fault(fmt::format("gradients of stage {} are not summed", stage));
    if (p_.two_way && rank.collectives.size() != ranks_[mirror(r)].collectives.size())
      throw Fault("ranks that share stages ran different collectives");
    for (const auto& [channel, w] : wires_)
      if (w.posted != w.sent.size()) throw Fault("messages are left over");
  }

  // The reductions must contain every micro-batch of every pipe exactly once, with the values of a run on one rank.
  void check_sums() {
    std::map<int, std::multiset<Value>> right;
    for (int pipe = 0; pipe < p_.pipes(); ++pipe)
      for (int b = 0; b < s_.of_pipe(); ++b) {
        std::vector<Value> x{sample({pipe, 0, b})};
        for (int stage = 0; stage + 1 < p_.stages(); ++stage) x.push_back(forward_of({pipe, stage, b}, x.back()));
        Value g = 7;
        for (int stage = p_.stages(); stage-- > 0;) {
          right[stage].insert(weight_gradient_of(x[static_cast<size_t>(stage)], g));
          g = input_gradient_of(x[static_cast<size_t>(stage)], g);
        }
      }
    if (summed_ != right) throw Fault("the gradients are not those of one rank");
  }

  size_t mirror(size_t r) const { return ranks_.size() - 1 - r; }
  static Key key(const Action& a) { return {a.pipe, a.stage, a.micro_batch}; }

  const Schedule& s_;
  const LoweringOptions& o_;
  const Placement& p_;
  std::vector<Rank> ranks_;
  std::map<Channel, Wire> wires_;
  std::map<int, std::multiset<Value>> summed_;
};

}  // namespace

std::string interpret(const Schedule& s, const LoweringOptions& o) {
  try {
    Machine(s, o).run();
    return {};
  } catch (const Fault& fault) {
    return fault.what();
  }
}

}  // namespace fp::test
