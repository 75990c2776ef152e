// Verifies the files of a prepared folder against its manifest. The ranks of a run share the work, so that each byte is
// read once.
#pragma once

#include <filesystem>
#include <vector>

#include "data/formats/block_hashes.h"
#include "data/formats/manifest.h"
#include "data/formats/work_sharing.h"

namespace fp {

enum class Verify {
  everything,  // every byte of every file
  changed,     // files without a stamp or changed since it was made (data/formats/stamps.h); writes new stamps
  nothing,     // sizes only, for callers that need just the tokenizer
};

struct OpenOptions {
  Verify verify = Verify::everything;
  WorkSharing* sharing = nullptr;  // the ranks that open the same folder together; null: this process alone
};

// A file of a split. files_of() lists them in the order in which their hashes are stored: shards, loss masks, index.
struct SplitFile {
  FileRecord record;
  size_t width;      // bytes per entry
  uint64_t entries;  // number of tokens, or of document boundaries
  uint64_t highest;  // maximum of an entry; for an index, its last entry
  bool is_index = false;
};
std::vector<SplitFile> files_of(const Manifest& manifest, Split split);

// Verifies the files of a split: every file's size, and its content as `options` say (hashes against the manifest, ids
// against the highest id, document boundaries against the number of tokens). Returns the hashes of each MiB of each
// file; they are empty where they are not known, which is the case for a folder without hashes that was not verified.
// Throws DataError naming the file that is missing, truncated or altered.
std::vector<BlockHashes> verify_split(const std::filesystem::path& folder, const Manifest& manifest, Split split,
                                      const OpenOptions& options);

}  // namespace fp
