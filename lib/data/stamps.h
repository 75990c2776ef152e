// Which files of a prepared folder were verified, and what they looked like then: the file `verified`
// (docs/data-format.md).
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "base/readable_file.h"
#include "data/manifest.h"

namespace fp {

struct Stamps {
  static constexpr const char* kFileName = "verified";

  std::string manifest;                      // identity_of() the manifest by which the files were verified
  std::map<std::string, FileFacts> files;    // by name: what each was when its content was as the manifest says
  std::map<std::string, FileRecord> hashes;  // of folders without: by split, a file beside this one

  std::string text() const;
  // Nothing is known where the text is damaged or of another version.
  static Stamps parse(const std::string& text);
};

// Where stamps of this folder may lie, in the order in which they are looked for: in the folder itself, and in the
// user's cache ($XDG_CACHE_HOME/fptrain/verified or ~/.cache/fptrain/verified), if the user has one.
std::vector<std::filesystem::path> stamp_places(const std::filesystem::path& data);

// The stamps of this manifest and the place where they lie; nothing where there are none. Only those are believed that
// belong to this user, to root or to the owner of the data's manifest, who could have altered that as well.
struct StoredStamps {
  std::filesystem::path place;
  Stamps stamps;
};
StoredStamps read_stamps(const std::filesystem::path& data, const std::string& manifest);

}  // namespace fp
