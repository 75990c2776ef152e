// Checks whether a process of this host still runs.
#pragma once

namespace fp {

// Returns false once the process has ended, even if its parent has not waited for it yet (a zombie).
bool process_runs(long pid);

}  // namespace fp
