// Reads files of one YAML document.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "config/yaml/yaml_tree.h"

namespace fp {

// Name of a kind of document for messages ("run spec"), and its content ("has sections such as model, data and train").
struct DocumentKind {
  std::string_view name, content;
};

// Returns the content of a file, but at most kMaxYamlBytes + 1 bytes: the parser refuses text that long. Throws
// ConfigError if the file cannot be read.
std::string read_document(const std::filesystem::path&, const DocumentKind&);

// Returns the root of the document. Throws ConfigError if its syntax is wrong or it is empty; `name` stands for the
// file in messages. Pass Lines::hidden for text made by code, whose line numbers mean nothing to the user.
YamlNode parse_document(std::string_view text, const std::string& name, const DocumentKind&,
                        Lines lines = Lines::shown);

}  // namespace fp
