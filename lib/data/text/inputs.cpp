#include "data/text/inputs.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <iostream>

#include "base/error.h"
#include "base/utf8.h"
#include "data/text/byte_source.h"

namespace fp {
namespace {

namespace fs = std::filesystem;

constexpr std::array kColumnar = {".parquet", ".arrow", ".feather", ".orc", ".avro", ".xlsx"};
constexpr std::array kTables = {".csv", ".tsv", ".json"};

template <size_t N>
bool is_one_of(const std::string& extension, const std::array<const char*, N>& list) {
  return std::find(list.begin(), list.end(), extension) != list.end();
}

// Returns the extension that says what a file holds, compressed or not.
std::string extension_of(const fs::path& path) {
  fs::path name = path.filename();
  if (name.extension() == ".gz" || name.extension() == ".zst") name = name.stem();
  return name.extension().string();
}

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

// Returns whether the beginning of a file is text. Latin-1 counts as text here: it is refused by name when it is read.
bool begins_as_text(const fs::path& path) {
  std::string block(size_t{1} << 16, '\0');
  block.resize(open_source(path)->read(std::span(block.data(), block.size())));
  return block.find('\0') == std::string::npos && bytes_not_text(block) * 4 <= block.size();
}

// Returns why a file of a folder is not read; "" for one that is.
std::string reason_to_skip(const fs::path& path, const std::string& format) {
  const std::string extension = extension_of(path);
  if (format == "auto" && is_one_of(extension, kTables))
    return "tables (.csv, .tsv, .json): convert them to JSON lines, or read them as text with --format text";
  is_json_lines(path, format);  // refuses columnar files
  return begins_as_text(path) ? "" : "files that are not text";
}

void find_in_folder(const fs::path& folder, const std::string& format, Inputs& found) {
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder)) entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  for (const fs::path& path : entries) {
    const auto skip = [&](const std::string& reason) { found.skipped.push_back({path, reason}); };
    if (is_hidden(path))
      skip("hidden files and folders");
    else if (fs::is_directory(path) && fs::is_symlink(path))
      skip("links to folders");
    else if (fs::is_directory(path))
      find_in_folder(path, format, found);
    else if (!fs::is_regular_file(path))
      skip("devices, pipes and broken links");
    else if (const std::string reason = reason_to_skip(path, format); !reason.empty())
      skip(reason);
    else
      found.files.push_back(path);
  }
}

}  // namespace

Inputs find_inputs(const std::vector<fs::path>& given, const std::string& format) {
  Inputs found;
  for (const fs::path& path : given)
    if (fs::is_directory(path))
      find_in_folder(path, format, found);
    else
      found.files.push_back(path);
  if (found.files.empty() && !given.empty())
    throw ConfigError(
        fmt::format("{}: no text file in this folder{}", given.front().string(),
                    found.skipped.empty()
                        ? ""
                        : fmt::format("; its {} entries are left out, the first, {}, with all {}", found.skipped.size(),
                                      found.skipped.front().path.string(), found.skipped.front().reason)));
  return found;
}

std::vector<fs::path> read_file_list(const std::string& name) {
  std::ifstream file;
  if (name != "-") file.open(name);
  std::istream& in = name == "-" ? std::cin : file;
  if (!in) throw DataError(fmt::format("--files-from {}: cannot be read", name));
  std::vector<fs::path> paths;
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) paths.emplace_back(line);
  }
  if (paths.empty()) throw DataError(fmt::format("--files-from {}: names no file; legal: one path per line", name));
  return paths;
}

bool is_json_lines(const fs::path& path, const std::string& format) {
  if (format == "text") return false;
  if (format == "jsonl") return true;
  if (format != "auto") throw ConfigError(fmt::format("--format {}: legal values: auto, text, jsonl", format));
  const std::string extension = extension_of(path);
  if (is_one_of(extension, kColumnar))
    throw ConfigError(fmt::format(
        "{}: {} files are not read; convert it to JSON lines first, with DuckDB: COPY (SELECT text FROM '{}') TO "
        "'text.jsonl' (FORMAT json), or with pandas: read_parquet(...).to_json(..., orient='records', lines=True)",
        path.string(), extension, path.filename().string()));
  if (is_one_of(extension, kTables))
    throw ConfigError(fmt::format(
        "{}: '{}' does not say where the text is; convert it to JSON lines (.jsonl: an object per line, its text in "
        "--text-field), or read it as it stands with --format jsonl|text",
        path.string(), extension));
  return extension == ".jsonl" || extension == ".ndjson";
}

std::vector<std::string> short_names(const std::vector<fs::path>& files) {
  std::vector<fs::path> whole;
  for (const fs::path& path : files) whole.push_back(fs::absolute(path).lexically_normal());
  fs::path common = whole.empty() ? fs::path() : whole.front().parent_path();
  for (const fs::path& path : whole)
    while (std::mismatch(common.begin(), common.end(), path.begin(), path.end()).first != common.end())
      common = common.parent_path();
  std::vector<std::string> names;
  for (const fs::path& path : whole) names.push_back(path.lexically_relative(common).string());
  return names;
}

size_t bytes_not_text(std::string_view text) {
  auto count = static_cast<size_t>(std::count(text.begin(), text.end(), '\0'));
  utf8_stretches(
      text, [](std::string_view) {}, [&](std::string_view broken) { count += broken.size(); });
  return count;
}

}  // namespace fp
