#include "data/text/corpus.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/memory_error.h"
#include "base/utf8.h"
#include "data/text/inputs.h"
#include "io/json.h"

namespace fp {
namespace {

constexpr uint64_t kLargestDocument = uint64_t{1} << 50;

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos; }

std::string_view without_line_end(std::string_view line) {
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace

DocumentRule::DocumentRule(const std::string& spec) : spec_(spec) {
  const size_t colon = spec.find(':');
  const std::string name = spec.substr(0, colon), value = colon == std::string::npos ? "" : spec.substr(colon + 1);
  if (spec == "file") {
    kind_ = Kind::file;
  } else if (spec == "line") {
    kind_ = Kind::lines;
  } else if (spec == "blank-line") {
    kind_ = Kind::blank_line;
  } else if (name == "start" && !value.empty()) {
    kind_ = Kind::start;
    start_ = std::make_shared<Regex>(value);
  } else if (name == "lines" && colon != std::string::npos) {
    kind_ = Kind::lines;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), lines_);
    if (error != std::errc() || end != value.data() + value.size() || lines_ == 0)
      throw ConfigError(fmt::format("--documents {}: N of lines:N is a positive integer", spec));
  } else {
    throw ConfigError(fmt::format("--documents {}: legal values: file, line, lines:N, blank-line, start:REGEX", spec));
  }
}

std::string_view DocumentBatch::raw(size_t i) const {
  return std::string_view(bytes_).substr(items_[i].begin, items_[i].end - items_[i].begin);
}

std::string DocumentBatch::place(size_t i) const {
  return fmt::format("{}:{}", options_->files[items_[i].file].string(), items_[i].line);
}

nlohmann::json DocumentBatch::object(size_t i) const {
  if (!items_[i].json)
    throw DataError(fmt::format("{}: JSON lines are needed: name the file .jsonl, or say --format jsonl", place(i)));
  return parse_json(raw(i), place(i), {.bytes = options_->max_document, .keys_once = false});
}

std::string_view DocumentBatch::text(size_t i, std::string& scratch) const {
  if (!items_[i].json) return raw(i);
  auto value = object(i);
  const auto need = [&](bool ok, const auto& what) {
    if (!ok) throw DataError(fmt::format("{}: {}", place(i), what()));
  };
  const std::string& name = options_->text_field;
  need(value.is_object(),
       [&] { return fmt::format("a JSON object is expected on each line, not {}", value.type_name()); });
  const auto field = value.find(name);
  need(field != value.end(), [&] { return fmt::format("the object has no field \"{}\" (--text-field)", name); });
  need(field->is_string(), [&] { return fmt::format("field \"{}\" is {}, not a string", name, field->type_name()); });
  scratch = std::move(field->get_ref<std::string&>());
  return scratch;
}

// Reads the lines of a file with their line ends; blocks where the whole file is one document.
class CorpusReader::Lines {
 public:
  Lines(const std::filesystem::path& path, size_t file, bool json, bool whole, uint64_t longest)
      : path_(path),
        source_(open_source(path)),
        file_(file),
        json_(json),
        whole_(whole),
        longest_(longest),
        buffer_(kBlock) {}

  // Returns false at the end of the file. The view is valid until the next call. A line that is too long is returned
  // truncated, but still longer than `longest`.
  bool next(std::string_view& line) {
    size_t searched = begin_;
    for (;;) {
      const char* newline = static_cast<const char*>(std::memchr(buffer_.data() + searched, '\n', end_ - searched));
      const bool found = newline || (whole_ && end_ > begin_) || is_too_long(end_ - begin_);
      if (found || ended_) {
        if (begin_ == end_) return false;
        const size_t stop = newline && !whole_ ? static_cast<size_t>(newline - buffer_.data()) + 1 : end_;
        line = std::string_view(buffer_.data() + begin_, stop - begin_);
        begin_ = stop;
        ++number_;
        return true;
      }
      searched = end_ - begin_;
      refill();
    }
  }
  uint64_t number() const { return number_; }
  uint64_t position() const { return source_->position(); }
  size_t file() const { return file_; }
  bool json() const { return json_; }

 private:
  static constexpr size_t kBlock = size_t{1} << 20;

  // `bytes` includes a line end of up to two bytes, which does not count.
  bool is_too_long(uint64_t bytes) const { return bytes > 2 && bytes - 2 > longest_; }

  void refill() {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    if (end_ * 2 > buffer_.size()) grow();
    const size_t n = source_->read(std::span(buffer_).subspan(end_));
    ended_ = end_ + n < buffer_.size();
    end_ += n;
  }

  // Called only for a line of nearly half the buffer that is still below the limit.
  void grow() {
    const size_t size = std::min<uint64_t>(buffer_.size() * 2, std::max<uint64_t>(longest_, kBlock) + 2 * kBlock);
    with_memory_for(
        size, [&] { return fmt::format("{}:{}", path_.string(), number_ + 1); }, [&] { buffer_.resize(size); });
  }

  std::filesystem::path path_;
  std::unique_ptr<ByteSource> source_;
  size_t file_;
  bool json_, whole_;
  uint64_t longest_;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;
  bool ended_ = false;
  uint64_t number_ = 0;
};

CorpusReader::CorpusReader(const CorpusOptions& options) : options_(options), rule_(options.documents) {
  if (rule_.start()) start_.emplace(*rule_.start());
  if (options_.files.empty())
    throw ConfigError("no input is given; name files or folders, or a list of files with --files-from");
  if (options_.max_document == 0 || options_.max_document > kLargestDocument)
    throw ConfigError(fmt::format("--max-document {}: legal: 1 to {} bytes", options_.max_document, kLargestDocument));
  for (const auto& path : options_.files) {
    is_json_.push_back(is_json_lines(path, options_.format));
    open_source(path);
    total_ += std::filesystem::file_size(path);
  }
}

CorpusReader::~CorpusReader() = default;

uint64_t CorpusReader::position() const { return finished_ + (lines_ ? lines_->position() : 0); }

bool CorpusReader::open_next() {
  if (next_file_ == options_.files.size()) return false;
  const bool json = is_json_[next_file_];
  lines_ = std::make_unique<Lines>(options_.files[next_file_], next_file_, json,
                                   !json && rule_.kind() == DocumentRule::Kind::file, options_.max_document);
  ++next_file_;
  return true;
}

bool CorpusReader::next(size_t bytes, DocumentBatch& batch) {
  batch.options_ = &options_;
  batch.bytes_.clear();
  batch.items_.clear();
  std::string_view line;
  while (batch.memory() < bytes) {
    if (!lines_ && !open_next()) break;
    if (lines_->next(line)) {
      read_line(line, batch);
      continue;
    }
    if (document_line_ > 0) end_document(batch);
    finished_ += std::filesystem::file_size(options_.files[lines_->file()]);
    lines_.reset();
  }
  return !batch.items_.empty();
}

void CorpusReader::read_line(std::string_view line, DocumentBatch& batch) {
  const bool is_line = lines_->json() || rule_.kind() != DocumentRule::Kind::file;
  if (is_line && without_line_end(line).size() > options_.max_document) refuse_document(lines_->number(), "this line");
  if (!lines_->json()) return read_text_line(line, batch);
  if (is_blank(line)) return;
  const size_t begin = batch.bytes_.size();
  batch.bytes_ += without_line_end(line);
  batch.items_.push_back({begin, batch.bytes_.size(), lines_->number(), lines_->file(), true});
}

void CorpusReader::read_text_line(std::string_view line, DocumentBatch& batch) {
  const bool collecting = document_line_ > 0;
  switch (rule_.kind()) {
    case DocumentRule::Kind::file:
      break;
    case DocumentRule::Kind::lines:
      if (collecting && document_lines_ == rule_.lines()) end_document(batch);
      break;
    case DocumentRule::Kind::blank_line:
      if (!is_blank(line)) break;
      if (collecting) end_document(batch);
      return;
    case DocumentRule::Kind::start: {
      // Only the well-formed beginning of a line that is not valid UTF-8 is matched.
      const std::string_view text = without_line_end(line);
      if (collecting && start_->occurs_in(text.substr(0, utf8_valid_prefix(text)))) end_document(batch);
      break;
    }
  }
  if (document_line_ == 0) document_line_ = lines_->number();
  const bool whole = rule_.kind() == DocumentRule::Kind::file;
  const uint64_t length = document_.size() + (whole ? line : without_line_end(line)).size();
  if (length > options_.max_document)
    refuse_document(document_line_, whole ? "this file" : "the document that begins here");
  with_memory_for(
      length, [&] { return place(document_line_); }, [&] { document_ += line; });
  ++document_lines_;
  if (whole && options_.part_bytes > 0 && document_.size() > options_.part_bytes) take_part(line.size(), batch);
}

// Divides before the last white space among the newest bytes: GPT-2's pattern has no word that crosses such a place.
void CorpusReader::take_part(size_t newest, DocumentBatch& batch) {
  const auto is_space = [&](size_t at) { return is_blank({&document_[at], 1}); };
  const size_t least = document_.size() - newest;
  size_t at = document_.size() - 1;
  while (at > least && !(is_space(at) && !is_space(at - 1))) --at;
  if (at <= least) return;
  add_item(std::string_view(document_).substr(0, at), batch);
  document_.erase(0, at);
}

std::string CorpusReader::place(uint64_t line) const {
  return fmt::format("{}:{}", options_.files[lines_->file()].string(), line);
}

void CorpusReader::refuse_document(uint64_t line, const char* what) const {
  std::string advice;
  if (!lines_->json())
    advice =
        rule_.kind() == DocumentRule::Kind::file
            ? "; a file is one document unless --documents says where documents begin: line, lines:N, blank-line or "
              "start:REGEX"
            : fmt::format("; the text is split by --documents {}", rule_.spec());
  throw DataError(fmt::format("{}: {} has more than {} bytes; legal: up to --max-document, which may be raised{}",
                              place(line), what, options_.max_document, advice));
}

void CorpusReader::add_item(std::string_view text, DocumentBatch& batch) {
  const size_t begin = batch.bytes_.size();
  batch.bytes_ += text;
  batch.items_.push_back({begin, batch.bytes_.size(), document_line_, lines_->file(), false});
}

void CorpusReader::end_document(DocumentBatch& batch) {
  const bool whole = rule_.kind() == DocumentRule::Kind::file;
  std::string_view text = whole ? std::string_view(document_) : without_line_end(document_);
  if (whole && is_blank(text)) text = {};
  const auto& cut = options_.cut;
  if (cut && cut->file == lines_->file() && cut->line == document_line_) {
    const std::string_view first = text.substr(0, cut_position(text, cut->offset));
    add_item(first, batch);
    document_line_ += static_cast<uint64_t>(std::count(first.begin(), first.end(), '\n'));
    add_item(text.substr(first.size()), batch);
  } else {
    add_item(text, batch);
  }
  document_.clear();
  document_line_ = document_lines_ = 0;
}

size_t cut_position(std::string_view text, size_t offset) {
  if (text.size() < 2) return text.size();
  offset = std::clamp<size_t>(offset, 1, text.size() - 1);
  const size_t least = offset - std::min<size_t>(offset - 1, text.size() / 20);
  for (const std::string_view end : {"\n\n", "\n", " "}) {
    const size_t found = text.rfind(end, offset - 1);
    const size_t behind = found == std::string_view::npos ? 0 : found + end.size();
    if (behind >= least && behind < text.size()) return behind;
  }
  const auto continues = [&](size_t at) { return (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80; };
  while (offset > 1 && continues(offset)) --offset;
  return offset;
}

}  // namespace fp
