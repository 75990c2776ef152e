// Whether the files of a prepared folder are what its manifest says: by the ranks of a run together, each byte once.
#pragma once

#include <filesystem>
#include <vector>

#include "data/block_hashes.h"
#include "data/manifest.h"
#include "data/work_sharing.h"

namespace fp {

enum class Verify {
  everything,  // every byte
  changed,     // what has no stamp yet, or is not as it was when it was stamped (data/stamps.h); stamps are kept
  nothing,     // whoever only asks for the tokenizer
};

struct OpenOptions {
  Verify verify = Verify::everything;
  WorkSharing* sharing = nullptr;  // with these ranks, which all open the same; null: alone
};

// A split's files in the order in which their hashes are stored: shards, loss masks, index.
struct SplitFile {
  FileRecord record;
  size_t width;      // bytes of an entry
  uint64_t entries;  // tokens, or boundaries of documents
  uint64_t highest;  // that an entry may be; of an index, what its last is
  bool is_index = false;
};
std::vector<SplitFile> files_of(const Manifest& manifest, Split split);

// The hashes of each MiB of each of these files; empty where they are not known: of a folder without, unless verified.
// DataError naming the file that is missing, truncated or altered. Every file's size is compared, and its content as
// `options` says: hashes against the manifest, ids against the highest, documents' boundaries against the tokens.
std::vector<BlockHashes> verify_split(const std::filesystem::path& folder, const Manifest& manifest, Split split,
                                      const OpenOptions& options);

}  // namespace fp
