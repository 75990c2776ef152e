// The right of one process at a time, on any host, to write into a folder.
//
// Locks are not sufficient: network file systems keep locks of folders local to each host, and may lose locks of files.
// A lease is a file that names the holder of the folder. The holder renews it by updating its modification time, and
// checks before every change visible to others that it still holds it. Another process takes the lease over when the
// holder is known to have ended or, if that cannot be known, when the lease has not been renewed for kMissed renewals
// by the file system's own clock.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "base/error.h"

namespace fp {

// Thrown when another process has taken the lease over, or its file was removed.
struct LeaseLost : InfrastructureError {
  using InfrastructureError::InfrastructureError;
};

// The holder of a lease. Empty texts and zeros: unknown.
struct LeaseHolder {
  std::string nonce;               // unique to this acquisition
  std::string host, boot;          // host name, and the kernel's boot id
  std::string pid_namespace;       // the namespace of `process`: containers have their own
  int64_t process = 0, start = 0;  // process id, and its start time in the kernel's ticks
  std::string job;                 // Slurm job id
  bool operator==(const LeaseHolder&) const = default;
};
std::string to_text(const LeaseHolder&);
LeaseHolder lease_holder_from(const std::string& text);

// The operating system functions that a lease needs: clock, processes, Slurm jobs. Tests substitute their own.
class LeaseSystem {
 public:
  using Time = std::chrono::nanoseconds;  // since 1970, by the file system's clock
  virtual ~LeaseSystem() = default;

  // Describes this process, with a new nonce.
  virtual LeaseHolder self();
  // Returns whether a process of this machine, in this process's pid namespace, still runs.
  virtual bool runs(const LeaseHolder&);
  // Returns whether squeue lists this job as running; nullopt when squeue gives no answer.
  virtual std::optional<bool> job_runs(const std::string& job);
  // Returns the current time of the file system that holds `probe`, a file that only this process uses; touches that
  // file.
  virtual Time now(const std::filesystem::path& probe);
  // Sleeps between two checks of a lease, or between its renewals.
  virtual void wait(std::chrono::milliseconds, const std::stop_token&);
};
LeaseSystem& real_lease_system();  // the real system

// Another run holds the lease; `job` is its Slurm job, if it has one.
struct FolderInUse : DataError {
  FolderInUse(const std::string& text, std::string of_job) : DataError(text), job(std::move(of_job)) {}
  std::string job;
};

class Lease {
 public:
  static constexpr std::chrono::seconds kRenewEvery{30};
  static constexpr int kMissed = 5;  // number of renewals after which a lease counts as abandoned

  // If the holder is on another host and may be alive: wait until that is known, at most for kMissed renewals; or
  // refuse at once.
  enum class Patience : uint8_t { wait, none };

  // Acquires the lease whose file is `file`, in an existing folder. Throws FolderInUse, "FOLDER: another run is using
  // this folder" and its holder, when it is held; InfrastructureError when its holder has not renewed it, or has
  // ended, but its lock remains.
  explicit Lease(const std::filesystem::path& file, Patience = Patience::wait, LeaseSystem& = real_lease_system());
  // Releases the lease, if it is still held.
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  // Throws LeaseLost when the lease is no longer held. To be called before every change that is visible to others.
  void require() const;
  // As require(), but by the result of the last renewal: does not access the file unless the lease is lost.
  void require_lately() const {
    if (lost_) require();
  }
  // Renews the lease; its own thread calls this every kRenewEvery.
  void renew();

 private:
  struct Seen;
  enum class Verdict : uint8_t { held, gone, silent, unclear };
  std::optional<Seen> read() const;
  Verdict assess(const Seen&) const;
  void acquire(Patience);
  bool create();
  bool take_over(const Seen&, Verdict);
  [[noreturn]] void refuse(const LeaseHolder&) const;
  void write_content(const std::filesystem::path&);
  void remove_leftovers() const;
  void keep_renewing(const std::stop_token&);

  const std::filesystem::path file_;
  LeaseSystem& system_;
  const LeaseHolder self_;
  const std::filesystem::path own_file_;  // renamed or linked to file_ when the lease is acquired
  int fd_ = -1;                           // holds the lock
  mutable std::atomic<bool> lost_ = false;
  std::atomic<int64_t> ignored_ = 0;
  bool warned_ = false;  // that it cannot be renewed
  std::jthread thread_;
};

}  // namespace fp
