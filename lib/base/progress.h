// Progress reports of long work that involves no communication (reading, hashing, writing), for the watchdog of the
// process.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

namespace fp {

// Sets the function that progress() calls, from any thread; empty: none. Must not be called while such work runs.
void set_progress_hook(std::function<void()> hook);
// Reports progress; to be called every few MiB.
void progress();

// From now on the progress of the calling thread is counted in `counter` and not reported: the watchdog does not watch
// this thread's work. nullptr: reported again.
void count_progress(std::atomic<int64_t>* counter);

}  // namespace fp
