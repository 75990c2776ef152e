// Reads text files and cuts them into documents, as a stream: one document at a time is held, never a whole file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/byte_source.h"
#include "data/regex.h"

namespace fp {

// How plain text is cut. The line end before a cut belongs to no document (the end-of-text token stands for it).
class DocumentRule {
 public:
  // "file"         a file is one document, unchanged
  // "line"         each line; "lines:N": each N lines
  // "blank-line"   paragraphs: lines of white space separate documents and belong to none
  // "start:REGEX"  a line in which REGEX is found begins a document
  // ConfigError for anything else.
  explicit DocumentRule(const std::string& spec);

  const std::string& spec() const { return spec_; }
  enum class Kind { file, lines, blank_line, start };
  Kind kind() const { return kind_; }
  uint64_t lines() const { return lines_; }
  const std::shared_ptr<const Regex>& start() const { return start_; }

 private:
  std::string spec_;
  Kind kind_ = Kind::blank_line;
  uint64_t lines_ = 1;
  std::shared_ptr<const Regex> start_;
};

struct CorpusOptions {
  std::vector<std::filesystem::path> files;  // read in this order
  std::string documents = "blank-line";      // DocumentRule, for plain text
  std::string format = "auto";               // auto (by name) | text | jsonl
  std::string text_field = "text";           // of each JSON line, which is one document
};

// Consecutive documents in one buffer. Must not outlive its reader.
class DocumentBatch {
 public:
  size_t size() const { return items_.size(); }
  // The text of document i, from the JSON line where it is one (decoded into `scratch`).
  // DataError with file:line when the line is malformed.
  std::string_view text(size_t i, std::string& scratch) const;
  // Document i as it stands in its file; of a JSON line, the line.
  std::string_view raw(size_t i) const;
  // "file:line", for messages.
  std::string place(size_t i) const;
  // The value of a JSON line. DataError with file:line when it is malformed or the file is not of JSON lines.
  nlohmann::json object(size_t i) const;

 private:
  friend class CorpusReader;
  struct Item {
    size_t begin, end;  // in bytes_
    uint64_t line;      // of the file, counted from 1
    size_t file;
    bool json;
  };
  const CorpusOptions* options_ = nullptr;
  std::string bytes_;
  std::vector<Item> items_;
};

class CorpusReader {
 public:
  // ConfigError for bad options, DataError for a missing file or one whose name does not tell its format.
  explicit CorpusReader(const CorpusOptions& options);
  ~CorpusReader();

  // The next documents, at least `bytes` of text if there are that many; false at the end. Blank JSON lines are
  // skipped; plain documents may be empty.
  bool next(size_t bytes, DocumentBatch& batch);
  // Bytes on disk: read so far and in all.
  uint64_t position() const;
  uint64_t total() const { return total_; }

 private:
  class Lines;
  bool open_next();
  void read_line(std::string_view line, DocumentBatch& batch);
  void read_text_line(std::string_view line, DocumentBatch& batch);
  void end_document(DocumentBatch& batch);

  CorpusOptions options_;
  DocumentRule rule_;
  std::optional<RegexMatcher> start_;
  std::vector<bool> is_json_;
  uint64_t total_ = 0, finished_ = 0;
  size_t next_file_ = 0;
  std::unique_ptr<Lines> lines_;
  std::string document_;        // the one being collected
  uint64_t document_line_ = 0;  // where it began; 0: none is being collected
  uint64_t document_lines_ = 0;
};

}  // namespace fp
