// The manifest.json of a prepared corpus: which files the folder contains and how to verify them. docs/data-format.md
// describes the format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/tokenizer.h"

namespace fp {

enum class Split { train, validation };
constexpr const char* name_of(Split split) { return split == Split::train ? "train" : "validation"; }

// The kind of a corpus. text: documents; chat: conversations; preferences: pairs of conversations (chosen, rejected)
// that differ in the answer.
enum class DataKind { text, chat, preferences };
constexpr const char* name_of(DataKind kind) {
  return kind == DataKind::text ? "text" : kind == DataKind::chat ? "chat" : "preferences";
}

// Advice for messages about a folder whose files do not match its manifest.
inline constexpr std::string_view kRepairAdvice =
    "copy the folder again, or prepare it again with `fptrain data prepare`";

struct FileRecord {
  std::string name;  // relative to the folder
  uint64_t bytes = 0;
  std::string xxh3;  // XXH3-128 of the whole file, 32 hex digits
};

struct SourceRecord {
  std::string name;    // an input file of `data prepare`: its path without the folders that all of them are in
  uint64_t bytes = 0;  // size on disk
};

struct SplitRecord {
  uint64_t documents = 0;
  uint64_t tokens = 0;      // end-of-text tokens included
  uint64_t text_bytes = 0;  // bytes of the documents before tokenizing
  FileRecord index;         // the document boundaries
  std::vector<FileRecord> shards;
  std::vector<FileRecord> loss_masks;  // one for each shard; none for text
  FileRecord hashes;  // hashes of each MiB of the shards, the masks and the index; no name before version 3
};

struct Manifest {
  // The format version: 3 with hashes of each MiB. Older programs wrote no hashes: version 1 for text, and version 2
  // for conversations, so that a reader which does not know loss masks refuses the folder.
  int version() const { return !train.hashes.name.empty() ? 3 : kind == DataKind::text ? 1 : 2; }
  static constexpr const char* kFileName = "manifest.json";
  static constexpr const char* kJsonLines = "json-lines";  // `documents` where all of them are JSON lines

  DataKind kind = DataKind::text;
  std::string chat_template;  // for conversations
  FileRecord tokenizer;       // a copy of the tokenizer; its xxh3 is the tokenizer's hash
  int64_t vocab_size = 0;
  int64_t eot = 0;
  int64_t highest_id = 0;                     // highest token id in any shard
  int token_bytes = 2;                        // 2 or 4
  uint64_t shard_tokens = uint64_t{1} << 28;  // tokens in every shard of a split but its last
  std::string documents;                      // how the text was split into documents (--documents), or kJsonLines
  std::string validation_split;               // "last", "hash" or "none"
  double validation_fraction = 0.0;
  uint64_t empty_documents = 0;      // left out
  uint64_t duplicate_documents = 0;  // training documents left out because they repeat a held-out one
  std::vector<SourceRecord> sources;
  SplitRecord train, validation;

  const SplitRecord& split(Split s) const { return s == Split::train ? train : validation; }
  SplitRecord& split(Split s) { return s == Split::train ? train : validation; }
};

// Returns a manifest without files, for data of this tokenizer.
Manifest new_manifest(const Tokenizer& tokenizer);
// Writes the last two files of a folder: the copy of the tokenizer and the manifest.
void write_manifest(const std::filesystem::path& folder, const Tokenizer& tokenizer, const Manifest& manifest);
// Returns the exact bytes of manifest.json, its own hash included.
std::string serialize(const Manifest& manifest);
// Returns the hash that identifies the content of a folder: that of its manifest as version 1 or 2.
std::string identity_of(Manifest manifest);
// Reads the manifest of a folder. Throws DataError when the file is missing, of another version, or not byte for byte
// what serialize() wrote.
Manifest read_manifest(const std::filesystem::path& folder);

}  // namespace fp
