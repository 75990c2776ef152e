// Output that is there whole or not at all: written beside its place, renamed into it when complete, removed otherwise.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

#include "base/lease.h"

namespace fp {

// All calls throw DataError naming the file or folder and the system's reason.

// The name of a file that another writer makes: path() until it is published.
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
  // Writes over the first bytes of the file; the next write() goes to the end again.
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
  // Removes what killed processes have left of the same target. DataError where there is a folder already that the file
  // system cannot replace in one step.
  explicit PendingFolder(const std::filesystem::path& target);
  ~PendingFolder();
  PendingFolder(const PendingFolder&) = delete;
  PendingFolder& operator=(const PendingFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Puts it into place; a folder that is there already is replaced, at no moment is there none. LeaseLost when another
  // process took this one for dead.
  void publish();

 private:
  std::filesystem::path target_, path_;
  std::optional<Lease> lease_;  // on path_
};

}  // namespace fp
