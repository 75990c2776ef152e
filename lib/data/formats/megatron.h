// Reads Megatron's .bin/.idx pairs: the token ids of all sequences back to back, and an index of sequences and
// documents.
#pragma once

#include <cstddef>
#include <filesystem>

#include "data/formats/dataset.h"

namespace fp {

// Returns the path of one file of a pair: the prefix with ".bin" or ".idx" appended.
inline std::filesystem::path with_ending(std::filesystem::path prefix, const char* ending) { return prefix += ending; }

// An .idx file, read in place. Little endian; the 8-byte numbers are not aligned.
//   "MMIDIDX\0\0", u64 version 1, u8 type of the ids, u64 sequences S, u64 entries D,
//   i32 tokens[S], i64 byte_offset[S], i64 first_sequence[D] (0 first, S last: document d is sequences [d, d+1))
class MegatronIndex {
 public:
  // Checks the whole index. Throws DataError naming `where` and the problem. Keeps a reference to `bytes`.
  MegatronIndex(const ByteReader& bytes, const std::string& where);

  TokenType type() const { return type_; }
  uint64_t sequences() const { return sequences_; }
  uint64_t documents() const { return entries_ - 1; }
  uint64_t tokens() const { return tokens_; }
  // Returns the token at which document d begins; for d = documents() the end of the last. Documents may be empty.
  uint64_t document_begin(uint64_t d) const;

  static constexpr char kMagic[] = "MMIDIDX\0";  // 9 bytes with the terminating zero
  static constexpr size_t kMagicBytes = 9;
  static constexpr uint64_t kVersion = 1;
  static constexpr size_t kHeaderBytes = 34;

 private:
  uint64_t offset_of(uint64_t sequence) const;
  uint64_t entry(uint64_t d) const;
  void read_header(const std::string& where);
  void check_sequences(const std::string& where) const;
  void check_documents(const std::string& where) const;

  const ByteReader& bytes_;
  TokenType type_ = TokenType::u16;
  uint64_t sequences_ = 0, entries_ = 0, tokens_ = 0;
};

// Returns the code of a type in an .idx file.
uint8_t megatron_code(TokenType type);
// Returns the prefix of a pair: the path without a trailing .bin or .idx.
std::filesystem::path megatron_prefix(const std::filesystem::path& path);
// Returns whether `path` (with or without .bin or .idx) has an index file that begins as Megatron's do.
bool is_megatron(const std::filesystem::path& path);

class MegatronDataset : public Dataset {
 public:
  // Opens `path`, given with or without .bin or .idx. The whole index is read and checked; of the .bin file only the
  // size. Ids are checked when they are read.
  MegatronDataset(const std::filesystem::path& path, std::shared_ptr<const Tokenizer> tokenizer);

  uint64_t documents() const override { return index_->documents(); }
  std::pair<uint64_t, uint64_t> document(uint64_t d) const override;

 private:
  DataFile index_file_;
  std::optional<MegatronIndex> index_;
};

}  // namespace fp
