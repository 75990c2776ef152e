// The file `verified`: which files of a prepared folder were verified, and their size, time and inode at that moment
// (docs/data-format.md).
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "data/formats/manifest.h"
#include "io/readable_file.h"

namespace fp {

struct Stamps {
  static constexpr const char* kFileName = "verified";

  std::string manifest;                      // identity_of() the manifest that the files were verified against
  std::map<std::string, FileFacts> files;    // by name: the facts of each file when it was verified
  std::map<std::string, FileRecord> hashes;  // by split: hash files beside this one, for folders without hashes

  std::string text() const;
  // Returns empty stamps when the text is damaged or of another version.
  static Stamps parse(const std::string& text);
};

// Returns the folders in which the stamps of `data` may be, in the order of search: the folder itself, then the user's
// cache ($XDG_CACHE_HOME/fptrain/verified or ~/.cache/fptrain/verified), if the user has one.
std::vector<std::filesystem::path> stamp_places(const std::filesystem::path& data);

// The stamps that belong to a manifest and the folder they were found in; empty when there are none.
struct StoredStamps {
  std::filesystem::path place;
  Stamps stamps;
};
// Reads the stamps of `data` that match `manifest` (identity_of()). Only stamp files are trusted that belong to this
// user, to root or to the owner of the data's manifest, who could have altered that as well.
StoredStamps read_stamps(const std::filesystem::path& data, const std::string& manifest);

}  // namespace fp
