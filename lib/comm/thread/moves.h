// The work of a communication, once all who take part have posted their calls: pieces that may be done in any order, by
// any thread, at the same time.
#pragma once

#include <span>

#include "comm/comm.h"

namespace fp {

// The calls of the ranks of a group, in rank order; of a send and its receive, these two. InternalError when they do
// not belong together: the ranks of `group` have lost step.
void check_calls(const std::string& group, std::span<const CommCall> calls);

int pieces_of(std::span<const CommCall> calls);
void move_piece(std::span<const CommCall> calls, int piece);

}  // namespace fp
