#include "exec/offloaded_input.h"

namespace fp {

OffloadedInput::~OffloadedInput() {
  if (env_ == nullptr || copy_.number == 0) return;
  try {
    env_->ops->copies().wait(copy_);
  } catch (...) {  // another error ends the run; the memory must still outlive the copy
  }
}

void OffloadedInput::send(const ModelEnv& env, const Tensor& x) {
  env_ = &env;
  host_ = env.host->alloc(x.dtype, x.shape);
  copy_ = env.ops->copies().start(host_, x);
}

void OffloadedInput::release(ArenaTensor& x) {
  env_->ops->copies().wait(copy_);
  copy_ = {};
  x.reset();
}

void OffloadedInput::fetch(ArenaTensor& x) {
  if (copy_.number > 0) return;
  x = env_->alloc(host_->shape);
  copy_ = env_->ops->copies().start(x, host_);
}

void OffloadedInput::arrive() {
  env_->ops->copies().wait(copy_);
  copy_ = {};
  host_.reset();
}

}  // namespace fp
