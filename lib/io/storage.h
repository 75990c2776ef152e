// The steps by which a save or a deletion changes the disk. Each step is announced to a hook before it happens, so that
// a test can stop the process at any of them or check their order.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

namespace fp::storage {

enum class Step : uint8_t { make_folder, create_file, write, close, sync, rename, remove };

// Called before each step with the step and its path. Empty: none. Must not be changed while a save runs.
using Hook = std::function<void(Step, const std::filesystem::path&)>;
void set_hook(Hook hook);
void announce(Step step, const std::filesystem::path& path);

// All throw DataError naming the path and the system's reason.
void make_folder(const std::filesystem::path& path);  // an existing folder is an error
// An existing folder is fine; missing parents are created and synced.
void make_folders(const std::filesystem::path& path);
void write_file(const std::filesystem::path& path, std::string_view content);  // synced
void sync(const std::filesystem::path& path);
void sync(int fd, const std::filesystem::path& path);  // syncs an open file; `path` names it in messages
// Copies an open file from its first byte on, syncs the copy and calls progress(); `name` names the source in messages.
void copy_file(int from, const std::filesystem::path& name, const std::filesystem::path& to);
void remove_file(const std::filesystem::path& path);
void rename(const std::filesystem::path& from, const std::filesystem::path& to);  // the parent is synced
// Removes a folder and its files. Throws DataError when it holds a folder of its own, which stays with its content.
void remove_folder(const std::filesystem::path& path);

// Returns whether `path` is a folder, and not a symbolic link to one.
bool is_folder(const std::filesystem::path& path);

// Returns the entries of a folder, sorted by name; empty when there is no such folder.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);

}  // namespace fp::storage
