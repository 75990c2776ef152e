// The steps by which a save or a deletion changes the disk. Every one is announced to a hook before it happens, so that
// a test can stop the process, or look at the order, at any of them.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

namespace fp::storage {

enum class Step : uint8_t { make_folder, create_file, write, close, sync, rename, remove };

// Called before each step with what is about to be done to which path. Empty: none. Not to be changed while a save
// runs.
using Hook = std::function<void(Step, const std::filesystem::path&)>;
void set_hook(Hook hook);
void announce(Step step, const std::filesystem::path& path);

// All throw DataError naming the path and the system's reason.
void make_folder(const std::filesystem::path& path);   // existing: an error
void make_folders(const std::filesystem::path& path);  // existing: nothing; missing parents are made and synced
void write_file(const std::filesystem::path& path, std::string_view content);  // synced
void sync(const std::filesystem::path& path);
// Of a file, synced; says progress().
void copy_file(const std::filesystem::path& from, const std::filesystem::path& to);
void remove_file(const std::filesystem::path& path);
void rename(const std::filesystem::path& from, const std::filesystem::path& to);  // the parent is synced
// Removes a folder of files. One that holds folders of its own is not ours: it is left with what it holds, DataError.
void remove_folder(const std::filesystem::path& path);

// A real folder, not a link to one.
bool is_folder(const std::filesystem::path& path);

// Entries of a folder by name; empty when there is no such folder.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);

}  // namespace fp::storage
