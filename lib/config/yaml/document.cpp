#include "config/yaml/document.h"

#include <fstream>

#include "base/error.h"
#include "io/retry.h"

namespace fp {

namespace fs = std::filesystem;

std::string read_document(const fs::path& path, const DocumentKind& kind) {
  std::error_code error;
  if (fs::is_directory(path, error))
    throw ConfigError(fmt::format("{}: is a folder, not a {}", path.string(), kind.name));
  return with_retries([&] {
    std::ifstream in(path, std::ios::binary);
    const int reason = errno;
    if (!in && is_transient(reason)) fail_reading("open", path, reason);
    if (!in)
      throw ConfigError(fmt::format("{}: cannot be read: {}", path.string(), std::generic_category().message(reason)));
    std::string text(kMaxYamlBytes + 1, '\0');
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (in.bad()) throw InfrastructureError(fmt::format("{}: cannot be read to its end", path.string()));
    text.resize(static_cast<size_t>(in.gcount()));
    return text;
  });
}

YamlNode parse_document(std::string_view text, const std::string& name, const DocumentKind& kind, Lines lines) {
  Problems problems;
  YamlNode root = parse_yaml(text, name, problems, lines, kind.name);
  problems.throw_if_any();
  if (root.kind == YamlNode::Kind::null)
    problems.add({name, 1, 1}, fmt::format("the file is empty: a {} {}", kind.name, kind.content));
  problems.throw_if_any();
  return root;
}

}  // namespace fp
