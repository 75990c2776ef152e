// Reads text files and splits them into documents as a stream: only the current document is held in memory, never a
// whole file. A reader needs at most a few times CorpusOptions::max_document, whatever a file contains or expands to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/byte_source.h"
#include "data/text/regex.h"

namespace fp {

// How plain text is split into documents. The line end before a boundary belongs to no document (the end-of-text token
// takes its place).
class DocumentRule {
 public:
  // The rules:
  //   "file"         a file is one document, unchanged; a file of white space is an empty one
  //   "line"         each line is a document; "lines:N": each group of N lines
  //   "blank-line"   paragraphs: lines of white space separate documents and belong to none
  //   "start:REGEX"  a line in which REGEX matches begins a document
  // Throws ConfigError for anything else.
  explicit DocumentRule(const std::string& spec);

  const std::string& spec() const { return spec_; }
  enum class Kind { file, lines, blank_line, start };
  Kind kind() const { return kind_; }
  uint64_t lines() const { return lines_; }
  const std::shared_ptr<const Regex>& start() const { return start_; }

 private:
  std::string spec_;
  Kind kind_ = Kind::file;
  uint64_t lines_ = 1;
  std::shared_ptr<const Regex> start_;
};

// A document that is divided in two, so that its end can be held out: the one that begins at `line` of file `file`.
struct DocumentCut {
  size_t file = 0;
  uint64_t line = 0;
  uint64_t offset = 0;  // the first part has about this many bytes
};

struct CorpusOptions {
  std::vector<std::filesystem::path> files;    // read in this order
  std::string documents = "file";              // a DocumentRule, for plain text
  std::string format = "auto";                 // auto (by the file's name) | text | jsonl
  std::string text_field = "text";             // the field of a JSON line that holds the document's text
  uint64_t max_document = uint64_t{64} << 20;  // maximum number of bytes of a document's text or JSON line
  bool allow_bytes = false;                    // accept files that are not text (TextCensus)
  std::optional<DocumentCut> cut;
  // > 0: documents of the rule "file" are read in parts of at least this many bytes, for uses to which documents do not
  // matter. No word of GPT-2's pattern crosses their boundaries.
  uint64_t part_bytes = 0;
};

// Returns where to divide `text` so that the first part has at most about `offset` bytes: behind a blank line, else
// behind a line end or a space that is near, else behind a character. The result is from 1 to text.size() - 1 for a
// text of at least two bytes.
size_t cut_position(std::string_view text, size_t offset);

// Consecutive documents in one buffer. Its reader must outlive it.
class DocumentBatch {
 public:
  size_t size() const { return items_.size(); }
  // Returns the bytes of memory that the documents and their positions take.
  size_t memory() const { return bytes_.size() + items_.size() * sizeof(Item); }
  // Returns the text of document i; for a JSON line its text field, decoded into `scratch`. Throws DataError with
  // file:line when the line is malformed.
  std::string_view text(size_t i, std::string& scratch) const;
  // Returns document i as it is in the file; for a JSON line, the whole line.
  std::string_view raw(size_t i) const;
  // Returns "file:line" of document i, for messages.
  std::string place(size_t i) const;
  // Returns the index of the document's file in CorpusOptions::files, its line, and whether it is a JSON line.
  size_t file(size_t i) const { return items_[i].file; }
  uint64_t line(size_t i) const { return items_[i].line; }
  bool is_json(size_t i) const { return items_[i].json; }
  // Returns the parsed value of a JSON line. Throws DataError with file:line when it is malformed or the file does not
  // consist of JSON lines.
  nlohmann::json object(size_t i) const;

 private:
  friend class CorpusReader;
  struct Item {
    size_t begin, end;  // in bytes_
    uint64_t line;      // line of the file, counted from 1
    size_t file;
    bool json;
  };
  const CorpusOptions* options_ = nullptr;
  std::string bytes_;
  std::vector<Item> items_;
};

class CorpusReader {
 public:
  // Throws ConfigError for invalid options or a file whose name says that it is neither text nor JSON lines, and
  // DataError for a missing file.
  explicit CorpusReader(const CorpusOptions& options);
  ~CorpusReader();

  // Replaces `batch` with the next documents, until they take at least `bytes` of memory or the text ends; returns
  // false when none are left. Blank JSON lines are skipped; plain documents may be empty. Throws DataError with
  // file:line for a document above max_document, and MemoryError when a smaller one does not fit into the host's
  // memory.
  bool next(size_t bytes, DocumentBatch& batch);
  // Number of bytes on disk: those read so far, and the total.
  uint64_t position() const;
  uint64_t total() const { return total_; }

 private:
  class Lines;
  bool open_next();
  void read_line(std::string_view line, DocumentBatch& batch);
  void read_text_line(std::string_view line, DocumentBatch& batch);
  void end_document(DocumentBatch& batch);
  void add_item(std::string_view text, DocumentBatch& batch);
  void take_part(size_t newest, DocumentBatch& batch);
  std::string place(uint64_t line) const;  // "file:line" in the open file
  [[noreturn]] void refuse_document(uint64_t line, const char* what) const;

  CorpusOptions options_;
  DocumentRule rule_;
  std::optional<RegexMatcher> start_;
  std::vector<bool> is_json_;
  uint64_t total_ = 0, finished_ = 0;
  size_t next_file_ = 0;
  std::unique_ptr<Lines> lines_;
  std::string document_;        // the document being collected
  uint64_t document_line_ = 0;  // its first line; 0: none is being collected
  uint64_t document_lines_ = 0;
};

}  // namespace fp
