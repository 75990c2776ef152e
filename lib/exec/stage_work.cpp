#include "exec/stage_work.h"

#include <utility>

namespace fp {
namespace {

using Direction = StageLinks::Direction;

class ActionLoop {
 public:
  ActionLoop(const Schedule& schedule, int rank, StageWork& work, StageLinks& links)
      : actions_(schedule.ranks[static_cast<size_t>(rank)]),
        last_(schedule.placement.stages() - 1),
        work_(work),
        links_(links) {}

  void run() {
    for (size_t i = 0; i < actions_.size(); ++i) {
      const bool reduces = i + 1 < actions_.size() && covers(actions_[i], actions_[i + 1]);
      run(actions_[i], reduces);
      if (reduces) ++i;
    }
    links_.finish();
  }

 private:
  // Whether `next` is the reduction that directly follows the last gradients it covers.
  static bool covers(const Action& a, const Action& next) {
    return (a.kind == ActionKind::backward || a.kind == ActionKind::backward_weight) &&
           next.kind == ActionKind::reduce && next.stage == a.stage;
  }

  void run(const Action& a, bool reduces) {
    switch (a.kind) {
      case ActionKind::forward:
        return pass_on(Direction::forward, a,
                       work_.forward(a, a.stage > 0 ? links_.take(Direction::forward, a) : OffloadedTensor()));
      case ActionKind::backward_input:
        return pass_on(Direction::backward, a, work_.backward_input(a, gradient(a)));
      case ActionKind::backward:
        return pass_on(Direction::backward, a, work_.backward(a, gradient(a), reduces));
      case ActionKind::backward_weight:
        return work_.backward_weight(a, reduces);
      case ActionKind::gather:
        return work_.gather(a.stage);
      case ActionKind::free:
        return work_.free(a.stage);
      case ActionKind::reduce:
        return work_.reduce(a.stage);
      case ActionKind::send_forward:
        return links_.send(Direction::forward, a);
      case ActionKind::send_backward:
        return links_.send(Direction::backward, a);
      case ActionKind::receive_forward:
        return links_.receive(Direction::forward, a, work_.allocate_input(a));
      case ActionKind::receive_backward:
        return links_.receive(Direction::backward, a, work_.allocate_input(a));
    }
  }

  ArenaTensor gradient(const Action& a) {
    return a.stage < last_ ? links_.take(Direction::backward, a).take() : ArenaTensor();
  }
  void pass_on(Direction direction, const Action& a, ArenaTensor x) {
    if (x) links_.give(direction, a, std::move(x));
  }

  const std::vector<Action>& actions_;
  int last_;
  StageWork& work_;
  StageLinks& links_;
};

}  // namespace

void run_actions(const Schedule& schedule, int rank, StageWork& work, StageLinks& links) {
  ActionLoop(schedule, rank, work, links).run();
}

}  // namespace fp
