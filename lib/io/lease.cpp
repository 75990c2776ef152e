#include "io/lease.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>
#include <utility>

#include "base/file_descriptor.h"
#include "base/log.h"
#include "base/progress.h"
#include "io/filesystem.h"
#include "io/retry.h"

namespace fp {
namespace {

constexpr std::chrono::milliseconds kPollInterval{5000};  // while it is not known whether a holder is alive
constexpr std::chrono::milliseconds kSettle{1000};        // for other processes that found the same lease stale
constexpr int kMostAttempts = 50;  // to take over a lease whose lock remains, a tenth of a second each
constexpr size_t kMostText = 4096;

constexpr const char* kFirstPidNamespace = "pid:[4026531836]";  // of the machine itself, not of a container

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

[[noreturn]] void fail_to(const char* what, const std::filesystem::path& file, int error) {
  fail_file(file, what, error);
}

struct flock whole_file() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

// Locks the file if the file system supports locks. Returns false if another process holds the lock.
bool lock_file(int fd) {
  struct flock lock = whole_file();
  return ::fcntl(fd, F_OFD_SETLK, &lock) == 0 || (errno != EAGAIN && errno != EACCES);
}
bool is_locked(int fd) {
  struct flock lock = whole_file();
  return ::fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

std::string described(const LeaseHolder& h) {
  if (h.host.empty()) return "holder unknown";
  return fmt::format("process {} on {}{}", h.process, h.host, h.job.empty() ? "" : ", Slurm job " + h.job);
}

}  // namespace

// The content and state of a lease file that was read.
struct Lease::Seen {
  LeaseHolder holder;
  LeaseSystem::Time renewed{};
  uint64_t inode = 0;
  bool locked = false;
};

std::string to_text(const LeaseHolder& h) {
  return fmt::format("nonce {}\nhost {}\nboot {}\npid_namespace {}\nprocess {}\nstart {}\njob {}\n", h.nonce, h.host,
                     h.boot, h.pid_namespace, h.process, h.start, h.job);
}

LeaseHolder lease_holder_from(const std::string& text) {
  LeaseHolder h;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t space = line.find(' ');
    if (space == std::string::npos) continue;
    const std::string key = line.substr(0, space), value = line.substr(space + 1);
    const auto number = [&] { return std::strtoll(value.c_str(), nullptr, 10); };
    if (key == "nonce") h.nonce = value;
    if (key == "host") h.host = value;
    if (key == "boot") h.boot = value;
    if (key == "pid_namespace") h.pid_namespace = value;
    if (key == "process") h.process = number();
    if (key == "start") h.start = number();
    if (key == "job") h.job = value;
  }
  return h;
}

Lease::Lease(const std::filesystem::path& file, Patience patience, LeaseSystem& system)
    : file_(file), system_(system), self_(system.self()), own_file_(std::filesystem::path(file) += "." + self_.nonce) {
  try {
    write_content(own_file_);
    acquire(patience);
  } catch (...) {
    ::unlink(own_file_.c_str());
    if (fd_ >= 0) ::close(fd_);
    throw;
  }
  thread_ = std::jthread([this](const std::stop_token& stop) { keep_renewing(stop); });
}

Lease::~Lease() {
  thread_.request_stop();
  thread_.join();
  try {
    require();
    if (::unlink(file_.c_str()) != 0) log::warning("{}: cannot remove: {}", file_.string(), std::strerror(errno));
  } catch (const UserError& e) {
    log::warning("{}", e.what());
  }
  ::close(fd_);
}

void Lease::write_content(const std::filesystem::path& path) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (fd_ < 0) fail_to("create", path, errno);
  lock_file(fd_);
  const std::string text = to_text(self_);
  if (::write(fd_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) fail_to("write", path, errno);
  if (::fsync(fd_) != 0) fail_to("fsync", path, errno);
}

std::optional<Lease::Seen> Lease::read() const {
  return with_retries([&]() -> std::optional<Seen> {
    const FileDescriptor file(::open(file_.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (!file.is_open()) {
      const int error = errno;
      if (error == ENOENT && !path_exists(file_)) return std::nullopt;
      fail_reading("open", file_, error);
    }
    struct stat info {};
    std::string text(kMostText, '\0');
    const ssize_t n = ::pread(file.get(), text.data(), text.size(), 0);
    if (n < 0 || ::fstat(file.get(), &info) != 0) fail_reading("read", file_, errno);
    text.resize(static_cast<size_t>(n));
    return Seen{lease_holder_from(text),
                std::chrono::seconds(info.st_mtim.tv_sec) + std::chrono::nanoseconds(info.st_mtim.tv_nsec), info.st_ino,
                is_locked(file.get())};
  });
}

Lease::Verdict Lease::assess(const Seen& seen) const {
  const LeaseHolder& h = seen.holder;
  const bool boots_known = !h.boot.empty() && !self_.boot.empty(), this_kernel = boots_known && h.boot == self_.boot;
  if (this_kernel && !h.pid_namespace.empty() && h.pid_namespace == self_.pid_namespace && h.process > 0)
    return system_.runs(h) ? Verdict::held : Verdict::gone;
  // Containers on two machines may have the same host name.
  const bool no_containers = h.pid_namespace == kFirstPidNamespace && self_.pid_namespace == kFirstPidNamespace;
  if (boots_known && !this_kernel && h.host == self_.host && no_containers) return Verdict::gone;
  const bool silent = system_.now(own_file_) - seen.renewed >= kMissed * kRenewEvery;
  if (seen.locked && silent)
    throw InfrastructureError(
        fmt::format("{}: its holder ({}) has not renewed it for {} s, but still has its lock: it hangs, or its host is "
                    "gone and the file server does not know yet; end it, or remove this file when it has ended",
                    file_.string(), described(h), (kMissed * kRenewEvery).count()));
  if (seen.locked) return Verdict::held;
  if (!silent) return Verdict::unclear;
  if (!h.job.empty() && h.job != self_.job && system_.job_runs(h.job).value_or(false)) return Verdict::held;
  return Verdict::silent;
}

void Lease::refuse(const LeaseHolder& h) const {
  throw FolderInUse(fmt::format("{}: another run is using this folder ({}); wait for it or give this one its own",
                                folder_of(file_).string(), described(h)),
                    h.job);
}

void Lease::acquire(Patience patience) {
  std::optional<Seen> first;
  int attempts = 0;  // to take it over
  while (!create()) {
    const std::optional<Seen> seen = read();
    if (!seen) continue;  // released meanwhile
    if (first && (seen->holder.nonce != first->holder.nonce || seen->renewed != first->renewed)) refuse(seen->holder);
    const Verdict verdict = assess(*seen);
    if (verdict == Verdict::held || (verdict == Verdict::unclear && patience == Patience::none)) refuse(seen->holder);
    if (verdict == Verdict::unclear) {
      if (!first)
        log::info("{}: held by {}; waiting up to {} s to see whether it is alive", file_.string(),
                  described(seen->holder), (kMissed * kRenewEvery).count());
      first = seen;
      system_.wait(kPollInterval, {});
    } else if (take_over(*seen, verdict)) {
      log::warning("{}: taken over from {}, which no longer runs", file_.string(), described(seen->holder));
      break;
    } else if (++attempts == kMostAttempts) {
      throw InfrastructureError(
          fmt::format("{}: its holder ({}) has ended, but its lock remains: a thread of it still waits for the file "
                      "system, or another process takes the folder over; try again later, or remove this file",
                      file_.string(), described(seen->holder)));
    }
  }
  fsync_path(folder_of(file_));
  remove_leftovers();
}

// Creates the lease. Returns false if it exists.
bool Lease::create() {
  const int error = ::link(own_file_.c_str(), file_.c_str()) == 0 ? 0 : errno;
  struct stat own {};
  if (error == 0 || (::stat(own_file_.c_str(), &own) == 0 && own.st_nlink == 2)) {  // linked, whatever the reply was
    ::unlink(own_file_.c_str());
    return true;
  }
  if (error == EEXIST) return false;
  if (error != EPERM && error != ENOTSUP && error != ENOSYS && error != EMLINK) fail_to("create", file_, error);
  // A file system without hard links.
  if (::renameat2(AT_FDCWD, own_file_.c_str(), AT_FDCWD, file_.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno == EEXIST) return false;
  write_content(file_);
  ::unlink(own_file_.c_str());
  return true;
}

// Replaces the lease file that was `seen` by this process's. Returns false if it was changed meanwhile.
bool Lease::take_over(const Seen& seen, Verdict verdict) {
  const FileDescriptor old(::open(file_.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  if (old.is_open() && !lock_file(old.get())) {  // another process is taking it over
    system_.wait(std::chrono::milliseconds(100), {});
    return false;
  }
  const std::optional<Seen> again = read();
  if (!again || again->inode != seen.inode || again->holder.nonce != seen.holder.nonce ||
      again->renewed != seen.renewed)
    return false;
  if (!rename_path(own_file_, file_)) fail_to("take over", file_, errno);
  if (verdict == Verdict::silent) system_.wait(kSettle, {});
  const std::optional<Seen> now = read();
  if (now && now->holder.nonce == self_.nonce) return true;
  refuse(now ? now->holder : LeaseHolder{});
}

// Removes the files that processes killed while acquiring this lease have left beside it.
void Lease::remove_leftovers() const {
  const std::string prefix = file_.filename().string() + ".";
  std::error_code ignored;
  const auto written_before = [&](const std::filesystem::path& path) {
    struct stat mine {
    }, its{};
    return ::stat(file_.c_str(), &mine) == 0 && ::stat(path.c_str(), &its) == 0 &&
           its.st_mtim.tv_sec + (kMissed * kRenewEvery).count() < mine.st_mtim.tv_sec;
  };
  for (const auto& entry : std::filesystem::directory_iterator(folder_of(file_), ignored)) {
    const std::string name = entry.path().filename().string();
    const bool ours = name.starts_with(prefix) && name.size() == prefix.size() + self_.nonce.size() &&
                      name.find_first_not_of("0123456789abcdef", prefix.size()) == std::string::npos;
    if (ours && written_before(entry.path())) ::unlink(entry.path().c_str());
  }
}

void Lease::require() const {
  std::optional<Seen> seen;
  if (!lost_) {
    seen = read();
    lost_ = !seen || seen->holder.nonce != self_.nonce;
  }
  if (!lost_) return;
  throw LeaseLost(fmt::format("{}: this run no longer holds its folder: {}; it stops without changing the folder",
                              file_.string(),
                              seen ? "it was not renewed in time, and taken over by " + described(seen->holder)
                                   : "the file was removed, or taken over by another run"));
}

void Lease::renew() {
  try {
    require();
    if (::utimensat(AT_FDCWD, file_.c_str(), nullptr, AT_SYMLINK_NOFOLLOW) == 0) return;
    if (!std::exchange(warned_, true))
      log::warning("{}: cannot be renewed: {}; if that lasts, a run on another host may take this folder over",
                   file_.string(), std::strerror(errno));
  } catch (const UserError&) {  // the next require() throws if the file still cannot be read
  }
}

void Lease::keep_renewing(const std::stop_token& stop) {
  count_progress(&ignored_);  // waiting here is not progress of the run
  for (;;) {
    system_.wait(kRenewEvery, stop);
    if (stop.stop_requested()) return;
    renew();
  }
}

}  // namespace fp
