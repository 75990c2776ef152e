#include "repo/source_tree.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "io/filesystem.h"

namespace fp::test {
namespace fs = std::filesystem;

namespace {

const fs::path root = FP_SOURCE_DIR;

// Folders that hold no sources: what .gitignore names, and git's own.
bool is_skipped(const fs::path& relative) {
  static const std::set<std::string> skipped = {".git",        "build",  "runs",   "data/local",
                                                "__pycache__", ".cache", ".vscode"};
  return skipped.count(relative.generic_string()) > 0 || relative.filename() == "__pycache__";
}

std::vector<std::string> walk() {
  std::vector<std::string> files;
  for (auto it = fs::recursive_directory_iterator(root); it != fs::recursive_directory_iterator(); ++it) {
    const fs::path relative = it->path().lexically_relative(root);
    if (it->is_directory() && is_skipped(relative)) {
      it.disable_recursion_pending();
    } else if (it->is_regular_file()) {
      files.push_back(relative.generic_string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool has_ending(const std::string& path, const std::string& ending) {
  if (ending.front() == '.') return path.ends_with(ending);
  return fs::path(path).filename() == ending;
}

}  // namespace

const std::vector<std::string>& project_files() {
  static const std::vector<std::string> files = walk();
  return files;
}

std::vector<std::string> project_files(const std::vector<std::string>& folders,
                                       const std::vector<std::string>& extensions) {
  std::vector<std::string> chosen;
  for (const std::string& path : project_files()) {
    const bool in_folder =
        std::any_of(folders.begin(), folders.end(), [&](auto& f) { return starts_with_folder(path, f); });
    const bool fits = std::any_of(extensions.begin(), extensions.end(), [&](auto& e) { return has_ending(path, e); });
    if (in_folder && fits) chosen.push_back(path);
  }
  return chosen;
}

bool exists_in_project(const std::string& path) { return fs::exists(root / path); }

std::string read_project_file(const std::string& path) { return fp::read_file(root / path); }

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  std::istringstream in{std::string(text)};
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1));
}

bool starts_with_folder(std::string_view path, std::string_view folder) {
  return folder.empty() || (path.starts_with(folder) && path.size() > folder.size() && path[folder.size()] == '/');
}

Problems::Problems(std::string rule) : rule_(std::move(rule)) {
  for (const std::string& line : split_lines(read_project_file("tests/repo/exceptions.txt"))) {
    if (line.empty() || line.front() == '#') continue;
    const size_t first = line.find('|'), second = line.find('|', first + 1);
    if (second == std::string::npos || trim(line.substr(second + 1)).empty()) {
      lines_.push_back("tests/repo/exceptions.txt: not 'rule | subject | reason': " + line);
    } else if (trim(line.substr(0, first)) == rule_) {
      excused_[trim(line.substr(first + 1, second - first - 1))] = false;
    }
  }
}

void Problems::add(const std::string& subject, const std::string& message) {
  if (const auto it = excused_.find(subject); it != excused_.end()) {
    it->second = true;
  } else {
    lines_.push_back(subject + ": " + message);
  }
}

std::string Problems::report() const {
  std::string text;
  for (const std::string& line : lines_) text += line + "\n";
  for (const auto& [subject, met] : excused_) {
    if (!met) text += "tests/repo/exceptions.txt: '" + rule_ + " | " + subject + "' excuses nothing; remove it\n";
  }
  return text;
}

}  // namespace fp::test
