// Long work that communicates with nobody (reading, hashing, writing) says here that it goes on, for whoever watches
// over the process.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

namespace fp {

// What progress() calls, from any thread; empty: nothing. Set while no such work runs.
void set_progress_hook(std::function<void()> hook);
// To be called every few MiB.
void progress();

// What this thread says from now on is counted there instead: it works beside what is watched.
void count_progress(std::atomic<int64_t>* counter);

}  // namespace fp
