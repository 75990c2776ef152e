#include "data/text/text_census.h"

#include "base/error.h"
#include "data/text/inputs.h"

namespace fp {

BatchCount count_text(const DocumentBatch& batch) {
  BatchCount counts;
  for (size_t i = 0; i < batch.size(); ++i) {
    if (counts.empty() || counts.back().first != batch.file(i)) counts.emplace_back(batch.file(i), FileCount());
    FileCount& count = counts.back().second;
    const std::string_view text = batch.raw(i);
    if (!text.empty()) ++count.documents;
    if (batch.is_json(i)) continue;
    count.bytes += text.size();
    count.not_text += bytes_not_text(text);
  }
  return counts;
}

void TextCensus::add(const BatchCount& batch) {
  for (const auto& [file, count] : batch) {
    files_[file].documents += count.documents;
    files_[file].bytes += count.bytes;
    files_[file].not_text += count.not_text;
  }
}

void TextCensus::require_text() const {
  if (corpus_.allow_bytes) return;
  std::vector<std::string> refused;
  for (size_t i = 0; i < files_.size(); ++i)
    if (files_[i].not_text * 100 > files_[i].bytes) refused.push_back(describe(i));
  if (refused.empty()) return;
  throw DataError(fmt::format(
      "{} {} not text in UTF-8: {}; convert it (iconv -f latin1 -t utf8), leave it out, or pass --allow-bytes",
      refused.size(), refused.size() == 1 ? "input file is" : "input files are", some_of(refused, 10)));
}

std::vector<std::filesystem::path> TextCensus::empty_files() const {
  std::vector<std::filesystem::path> empty;
  for (size_t i = 0; i < files_.size(); ++i)
    if (files_[i].documents == 0) empty.push_back(corpus_.files[i]);
  return empty;
}

std::vector<std::string> TextCensus::accepted() const {
  std::vector<std::string> lines;
  for (size_t i = 0; i < files_.size(); ++i)
    if (files_[i].not_text > 0) lines.push_back(describe(i));
  return lines;
}

std::string TextCensus::describe(size_t file) const {
  const FileCount& count = files_[file];
  return fmt::format("{}: {} of {} bytes", corpus_.files[file].string(), count.not_text, count.bytes);
}

std::string some_of(const std::vector<std::string>& names, size_t most) {
  const size_t shown = std::min(names.size(), most);
  std::string text;
  for (size_t i = 0; i < shown; ++i) text += (i > 0 ? ", " : "") + names[i];
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

}  // namespace fp
