// The right to write into a folder, held by one process at a time on whatever host.
//
// Locks do not do for this: network file systems keep those of folders on each host, and may lose those of files. A
// lease is a file that says who holds the folder. Its holder renews it, by its time of change, and looks before every
// change that others would see whether it still holds it. Another process takes it over when the holder is known to be
// gone or, where that cannot be known, when it has not been renewed for long, by the file system's own clock.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "base/error.h"

namespace fp {

// Another process has taken the lease over, or somebody has removed its file.
struct LeaseLost : InfrastructureError {
  using InfrastructureError::InfrastructureError;
};

// Who holds a lease. Empty texts and zeros: not known.
struct LeaseHolder {
  std::string nonce;               // of this one holding
  std::string host, boot;          // name, and the kernel's id of its start
  std::string pid_namespace;       // in which the process has its number: containers have their own
  int64_t process = 0, start = 0;  // number, and when it began, in the kernel's ticks
  std::string job;                 // of Slurm
  bool operator==(const LeaseHolder&) const = default;
};
std::string to_text(const LeaseHolder&);
LeaseHolder lease_holder_from(const std::string& text);

// The operating system as a lease sees it: clock, processes, Slurm jobs. Tests substitute their own.
class LeaseSystem {
 public:
  using Time = std::chrono::nanoseconds;  // since 1970, by the file system's clock
  virtual ~LeaseSystem() = default;

  // This process, with a new nonce.
  virtual LeaseHolder self();
  // Whether a process of this machine and this process's namespace still runs.
  virtual bool runs(const LeaseHolder&);
  // Whether squeue knows this job as one that has not ended; nothing where it cannot say.
  virtual std::optional<bool> job_runs(const std::string& job);
  // What time it is now for the file system that holds `probe`, a file of this process alone, which is touched.
  virtual Time now(const std::filesystem::path& probe);
  // Between two looks at a lease, and between its renewals.
  virtual void wait(std::chrono::milliseconds, const std::stop_token&);
};
LeaseSystem& machine_of_leases();  // the real one

class Lease {
 public:
  static constexpr std::chrono::seconds kRenewEvery{30};
  static constexpr int kMissed = 5;  // renewals, after which a lease is nobody's

  // Of a holder on another host that may be alive: wait until it is known, kMissed renewals at most; or refuse at once.
  enum class Patience : uint8_t { wait, none };

  // Takes the lease whose file is `file`, in a folder that exists. DataError, "FOLDER: another run is using this
  // folder" and who it is, when it is held; InfrastructureError when its holder has not renewed it but still has its
  // lock.
  explicit Lease(const std::filesystem::path& file, Patience = Patience::wait, LeaseSystem& = machine_of_leases());
  // Gives it back, if it is still held.
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  // LeaseLost when it is no longer held. To be called before every change that others would see.
  void require() const;
  // The same by what the last renewal found, without looking at the file.
  void require_lately() const {
    if (lost_) require();
  }
  // What the lease's own thread does every kRenewEvery.
  void renew();

 private:
  struct Seen;
  enum class Verdict : uint8_t { held, gone, silent, unclear };
  std::optional<Seen> look() const;
  Verdict judge(const Seen&) const;
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
  const std::filesystem::path own_file_;  // before it becomes the lease's
  int fd_ = -1;                           // holds the lock
  mutable std::atomic<bool> lost_ = false;
  std::atomic<int64_t> ignored_ = 0;
  std::jthread thread_;
};

}  // namespace fp
