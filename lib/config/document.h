// Reading a file of one YAML document.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "config/yaml_tree.h"

namespace fp {

// What a document is, for messages: "run spec", and what is in it: "has sections such as model, data and train".
struct DocumentKind {
  std::string_view name, content;
};

// At most one byte more than a document may have: enough for the parser to refuse the rest. ConfigError when it cannot
// be read.
std::string read_document(const std::filesystem::path&, const DocumentKind&);

// Its root. ConfigError with what is wrong with its syntax: without it nothing further can be said; or when it is
// empty. Lines::hidden: of a text that no person has.
YamlNode parse_document(std::string_view text, const std::string& name, const DocumentKind&,
                        Lines lines = Lines::shown);

}  // namespace fp
