// Runs one of the linked fuzz targets on files and on mutations of them, in a child process. The current input is in
// shared memory, so that it is available however the child ends.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <typeinfo>
#include <vector>

#include "io/filesystem.h"
#include "mutate.h"
#include "target.h"

namespace fp_fuzz {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUsage =
    "usage: %s TARGET [--iterations N | --minutes M] [--seed S|random] [--seconds-each T] [--state FILE] [--finds "
    "FOLDER] "
    "FILE|FOLDER...\n"
    "Runs each file once, then mutations of them: the first N, or as many as M minutes of processor time allow. An\n"
    "input that fails, or takes T seconds of processor time, ends the run with code 1. It is written to FOLDER\n"
    "(default: .) under the name that is printed; as the only argument it fails again. A run that SIGTERM or SIGINT\n"
    "stops (code 75) resumes from its state file.\n";

std::map<std::string, Target>& targets() {
  static std::map<std::string, Target> map;
  return map;
}

constexpr int kInterrupted = 75;
constexpr unsigned kPatience = 20;               // an input may take this many times its processor time
constexpr int64_t kMemory = int64_t{256} << 20;  // maximum bytes for one input

struct Options {
  Target target = nullptr;
  uint64_t iterations = 0;
  double minutes = 0;
  std::optional<uint64_t> seed;
  unsigned seconds_each = 0;
  fs::path state, finds = ".";
  std::vector<fs::path> files;
};

[[noreturn]] void fail_usage(const char* program, const std::string& what) {
  std::fprintf(stderr, "error: %s\n", what.c_str());
  std::fprintf(stderr, kUsage, program);
  std::exit(2);
}

Options parse(int argc, char** argv) {
  Options o;
  const std::map<std::string, std::function<void(const std::string&)>> options = {
      {"--iterations", [&](const std::string& v) { o.iterations = std::stoull(v); }},
      {"--minutes", [&](const std::string& v) { o.minutes = std::stod(v); }},
      {"--seed", [&](const std::string& v) { o.seed = v == "random" ? std::random_device()() : std::stoull(v); }},
      {"--seconds-each", [&](const std::string& v) { o.seconds_each = static_cast<unsigned>(std::stoul(v)); }},
      {"--state", [&](const std::string& v) { o.state = v; }},
      {"--finds", [&](const std::string& v) { o.finds = v; }}};
  const auto target = targets().find(argc > 1 ? argv[1] : "");
  if (target == targets().end()) {
    std::string names;
    for (const auto& [name, run] : targets()) names += " " + name;
    fail_usage(argv[0], fmt::format("no target '{}'; there are:{}", argc > 1 ? argv[1] : "", names));
  }
  o.target = target->second;
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    if (const auto option = options.find(word); option != options.end()) {
      if (++i == argc) fail_usage(argv[0], word + " needs a value");
      try {
        option->second(argv[i]);
      } catch (const std::logic_error&) {
        fail_usage(argv[0], fmt::format("{} {}: legal: a number", word, argv[i]));
      }
    } else if (word.starts_with("--")) {
      fail_usage(argv[0], "unknown option " + word);
    } else if (fs::is_directory(word)) {
      for (const auto& entry : fs::directory_iterator(word)) o.files.push_back(entry.path());
    } else {
      o.files.emplace_back(word);
    }
  }
  if (o.files.empty()) fail_usage(argv[0], "no files");
  // The same files have the same order everywhere, wherever their folders are.
  std::sort(o.files.begin(), o.files.end(), [](const fs::path& a, const fs::path& b) {
    return std::pair(a.filename(), a) < std::pair(b.filename(), b);
  });
  return o;
}

// The state of a run from which it can be resumed.
struct Progress {
  uint64_t seed = 1, next = 0;  // next: number of the next mutation
  double seconds = 0;
};

Progress read_state(const Options& o) {
  Progress p{o.seed.value_or(1), 0, 0};
  std::ifstream in(o.state);
  if (Progress saved; in >> saved.seed >> saved.next >> saved.seconds) p = saved;
  return p;
}

// The current input, in memory shared with the parent.
struct Shared {
  uint64_t number;  // files first, then mutations
  uint64_t bytes;
  double seconds;  // processor time of all inputs, so that a busy machine does not shorten a run
  bool done;
  char* input() { return reinterpret_cast<char*>(this + 1); }
};

int64_t peak_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

double processor_seconds() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Ends this process by SIGPROF when it computes longer than this, and by SIGALRM when it only waits; 0: no limit.
void limit_time(unsigned seconds) {
  const itimerval computing{{0, 0}, {static_cast<time_t>(seconds), 0}};
  ::setitimer(ITIMER_PROF, &computing, nullptr);
  ::alarm(kPatience * seconds);
}

// Runs a target; returns false when it fails in a way that can be reported here.
bool survives(Target target, std::string_view input) {
  const int64_t before = peak_bytes();
  try {
    target(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  } catch (const std::exception& e) {
    std::fprintf(stderr, "threw %s: %s\n", typeid(e).name(), e.what());
    return false;
  }
  const int64_t taken = peak_bytes() - before;
  if (taken <= kMemory) return true;
  std::fprintf(stderr, "took %lld MiB of memory\n", static_cast<long long>(taken >> 20));
  return false;
}

class Run {
 public:
  explicit Run(const Options& o) : o_(o), progress_(read_state(o)) {
    size_t longest = Mutator::kLongest;
    for (const fs::path& file : o.files) {
      corpus_.push_back(fp::read_file(file));
      longest = std::max(longest, corpus_.back().size());
    }
    void* memory = ::mmap(nullptr, sizeof(Shared) + longest, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    FP_CHECK(memory != MAP_FAILED, "no memory to share");
    shared_ = static_cast<Shared*>(memory);
    shared_->number = progress_.next > 0 ? corpus_.size() + progress_.next : 0;
    shared_->seconds = progress_.seconds;
  }

  int operator()() {
    if (mutates()) std::printf("seed %llu\n", static_cast<unsigned long long>(progress_.seed));
    std::fflush(stdout);
    scratch();  // created by this process, which also removes it
    const pid_t child = ::fork();
    if (child == 0) run_inputs();
    int status = 0;
    if (!wait_for(child, status)) {
      save();
      std::printf("stopped after %llu mutations; the same command resumes\n", mutations());
      return kInterrupted;
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      if (!o_.state.empty()) save();
      return report(status);
    }
    if (!o_.state.empty()) fs::remove(o_.state);
    std::printf("nothing broke: %zu files and %llu mutations, seed %llu\n", corpus_.size(), mutations(),
                static_cast<unsigned long long>(progress_.seed));
    return 0;
  }

 private:
  bool mutates() const { return o_.iterations > 0 || o_.minutes > 0; }
  unsigned long long mutations() const {
    return shared_->number > corpus_.size() ? shared_->number - corpus_.size() : 0;
  }
  bool is_over() const {
    if (shared_->number < corpus_.size()) return false;
    return o_.minutes > 0 ? shared_->seconds >= 60 * o_.minutes : mutations() >= o_.iterations;
  }

  // Runs in the child. Ends with exit(), so that LeakSanitizer runs.
  [[noreturn]] void run_inputs() {
    const Mutator mutator(corpus_, progress_.seed);
    for (; !is_over(); ++shared_->number) {
      const uint64_t n = shared_->number;
      const std::string input = n < corpus_.size() ? corpus_[n] : mutator.input(n - corpus_.size());
      shared_->bytes = input.size();
      std::memcpy(shared_->input(), input.data(), input.size());
      limit_time(o_.seconds_each);
      if (!survives(o_.target, {shared_->input(), input.size()})) ::_exit(1);
      shared_->seconds = progress_.seconds + processor_seconds();
    }
    limit_time(0);
    shared_->done = true;
    std::exit(0);
  }

  // Returns false when this process received a stop signal.
  bool wait_for(pid_t child, int& status) {
    if (o_.state.empty()) return ::waitpid(child, &status, 0) == child;
    auto saved = std::chrono::steady_clock::now();
    while (::waitpid(child, &status, WNOHANG) == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      if (stopped) {
        ::kill(child, SIGKILL);
        ::waitpid(child, &status, 0);
        return false;
      }
      if (std::chrono::steady_clock::now() - saved < std::chrono::seconds(5)) continue;
      save();
      saved = std::chrono::steady_clock::now();
    }
    // A signal to the process group ends the child, too.
    return !stopped;
  }

  void save() const {
    fp::write_file_atomically(o_.state, fmt::format("{} {} {}\n", progress_.seed, mutations(), shared_->seconds));
  }

  int report(int status) const {
    const uint64_t n = shared_->number;
    const std::string what = shared_->done        ? "the leak check at the end"
                             : n < corpus_.size() ? "file " + o_.files[n].string()
                                                  : fmt::format("mutation {} of seed {}", mutations(), progress_.seed);
    std::string how = "ended the process";
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF)
      how = fmt::format("took more than {} s", o_.seconds_each);
    else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
      how = fmt::format("was not done after {} s", kPatience * o_.seconds_each);
    else if (WIFSIGNALED(status))
      how = fmt::format("ended by signal {}", WTERMSIG(status));
    std::fprintf(stderr, "FAILED: %s %s\n", what.c_str(), how.c_str());
    if (shared_->done) return 1;
    const std::string_view input(shared_->input(), shared_->bytes);
    const fs::path find = o_.finds / ("find-" + fp::hash_bytes(input.data(), input.size()).substr(0, 12));
    fp::write_file_atomically(find, input);
    std::fprintf(stderr, "FAILED: its %zu bytes are in %s\n", input.size(), find.c_str());
    return 1;
  }

  const Options& o_;
  Progress progress_;
  std::vector<std::string> corpus_;
  Shared* shared_ = nullptr;

 public:
  static inline volatile sig_atomic_t stopped = 0;
};

}  // namespace

bool add_target(const char* name, Target target) { return targets().emplace(name, target).second; }

}  // namespace fp_fuzz

// Defaults for options that ASAN_OPTIONS does not set. No input needs so large an allocation, and a large quarantine of
// freed memory would count as the input's memory.
extern "C" const char* __asan_default_options();
const char* __asan_default_options() {
  return "allocator_may_return_null=0:max_allocation_size_mb=256:quarantine_size_mb=16";
}

int main(int argc, char** argv) {
  const fp_fuzz::Options options = fp_fuzz::parse(argc, argv);
  if (!options.state.empty()) {
    struct sigaction stop {};
    stop.sa_handler = [](int) { fp_fuzz::Run::stopped = 1; };
    for (const int s : {SIGTERM, SIGINT}) ::sigaction(s, &stop, nullptr);
  }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  // An input that exhausts memory must fail alone.
  const rlimit limit{rlim_t{4} << 30, rlim_t{4} << 30};
  ::setrlimit(RLIMIT_AS, &limit);
#endif
  fp_fuzz::Run run(options);
  return run();
}
