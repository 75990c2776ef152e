// Long work that communicates with nobody (reading, hashing, writing) says here that it goes on, for whoever watches
// over the process.
#pragma once

#include <functional>

namespace fp {

// What progress() calls, from any thread; empty: nothing. Set while no such work runs.
void set_progress_hook(std::function<void()> hook);
// To be called every few MiB.
void progress();

}  // namespace fp
