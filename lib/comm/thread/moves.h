// The data movement of a communication whose participants have all posted their calls. It is divided into pieces, which
// may be executed in any order, by any thread, at the same time.
#pragma once

#include <span>

#include "comm/comm.h"

namespace fp {

// Throws InternalError when calls do not match, that is, when the ranks of `group` are out of step. `calls` are those
// of all ranks in rank order, or a send and its receive.
void check_calls(const std::string& group, std::span<const CommCall> calls);

// Number of pieces, and the execution of one of them.
int pieces_of(std::span<const CommCall> calls);
void move_piece(std::span<const CommCall> calls, int piece);

}  // namespace fp
