// Output that appears atomically: written to a temporary path beside its target, renamed to the target when complete,
// removed otherwise.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

#include "io/lease.h"

namespace fp {

// All calls throw DataError naming the file or folder and the system's reason.

// An unpredictable temporary path, path(), for a file that other code writes, until publish() renames it to the target.
class PendingPath {
 public:
  explicit PendingPath(const std::filesystem::path& target);
  ~PendingPath();
  PendingPath(const PendingPath&) = delete;
  PendingPath& operator=(const PendingPath&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Flushes to disk and renames into place.
  void publish();

 private:
  std::filesystem::path target_, path_;
};

class PendingFile {
 public:
  explicit PendingFile(const std::filesystem::path& target);

  void write(std::span<const std::byte> bytes);
  // Overwrites the first bytes of the file; the next write() appends at the end again.
  void rewrite_begin(std::span<const std::byte> bytes);
  // Flushes to disk and renames into place.
  void publish();

 private:
  [[noreturn]] void fail(const char* what) const;
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  PendingPath pending_;
  std::unique_ptr<std::FILE, Close> file_;
};

class PendingFolder {
 public:
  // Creates the temporary folder, and removes those that killed processes have left of the same target. Throws
  // DataError if the target exists already and the file system cannot replace it atomically.
  explicit PendingFolder(const std::filesystem::path& target);
  ~PendingFolder();
  PendingFolder(const PendingFolder&) = delete;
  PendingFolder& operator=(const PendingFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Renames the folder to the target. An existing target is replaced atomically: at no moment is there none. Throws
  // LeaseLost when another process took this one for dead.
  void publish();

 private:
  std::filesystem::path target_, path_;
  std::optional<Lease> lease_;  // on path_
};

}  // namespace fp
