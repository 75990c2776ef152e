// Access to the project's own files for the tests of this folder, and the problems that they report.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace fp::test {

// Returns the paths of all regular files outside build folders, runs and .git: relative to the repository root,
// '/'-separated, sorted.
const std::vector<std::string>& project_files();

// Returns those below one of `folders` ("lib", "apps/fptrain"; "" is everything) with one of `extensions` (".h", or a
// whole file name such as "CMakeLists.txt").
std::vector<std::string> project_files(const std::vector<std::string>& folders,
                                       const std::vector<std::string>& extensions);

bool exists_in_project(const std::string& path);
std::string read_project_file(const std::string& path);
std::vector<std::string> split_lines(std::string_view text);
std::string trim(std::string_view text);
bool starts_with_folder(std::string_view path, std::string_view folder);

// Returns C++ text with comments, string and character literals blanked out; line breaks and columns are kept.
std::string strip_comments_and_literals(std::string_view text);

// A `//` comment of C++ text.
struct Comment {
  int line = 0, column = 0;  // of its slashes, from 1
  bool alone = false;        // no code before it on its line
  std::string text;          // without the slashes and the spaces around it
};

// Returns the `//` comments of C++ text in order; those in literals are none.
std::vector<Comment> comments_of(std::string_view text);

// Problems found by one rule. Those listed in exceptions.txt are dropped; an exception that matches no problem is a
// problem itself.
class Problems {
 public:
  explicit Problems(std::string rule);
  // `subject` is the name that an exception uses: a path, or path:function.
  void add(const std::string& subject, const std::string& message);
  // Returns the problems, one per line; empty: none.
  std::string report() const;

 private:
  std::string rule_;
  std::map<std::string, bool> excused_;  // subject -> met
  std::vector<std::string> lines_;
};

}  // namespace fp::test
