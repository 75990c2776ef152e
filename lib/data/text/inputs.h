// The input files of `fptrain data prepare` and `data train-tokenizer`: which files folders and lists of files hold,
// and how each file is read.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace fp {

// A file or folder inside an input folder that is not read.
struct SkippedInput {
  std::filesystem::path path;
  std::string reason;  // in the plural: "files that are not text"
};

struct Inputs {
  std::vector<std::filesystem::path> files;
  std::vector<SkippedInput> skipped;
};

// Replaces each folder of `given` by the files in it and its folders, in the order of their names. Hidden entries
// (whose name begins with a dot), links to folders, tables (.csv, .tsv, .json) and files whose content is not text are
// left out of folders; files that are named are kept whatever they are. `format` is CorpusOptions::format. Throws
// ConfigError for columnar files (.parquet, .arrow, ...), which are never text, and when folders hold no text file at
// all.
Inputs find_inputs(const std::vector<std::filesystem::path>& given, const std::string& format);

// Returns the paths that a file ("-": standard input) lists, one per line; empty lines are skipped. Throws DataError
// when it cannot be read or lists none.
std::vector<std::filesystem::path> read_file_list(const std::string& name);

// Returns whether a file consists of JSON lines, by `format` (auto | text | jsonl) and its name. Throws ConfigError for
// another format, and for a name that says that the file is neither text nor JSON lines.
bool is_json_lines(const std::filesystem::path& path, const std::string& format);

// Returns names that tell the files apart: their paths without the folders that all of them are in.
std::vector<std::string> short_names(const std::vector<std::filesystem::path>& files);

// Returns the number of bytes that are not text: those of no well-formed UTF-8 character, and NUL.
size_t bytes_not_text(std::string_view text);

}  // namespace fp
