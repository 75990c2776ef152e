#include "data/text/chat_template.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/shown.h"
#include "base/utf8.h"
#include "config/fields/decode.h"
#include "config/yaml/document.h"
#include "data/text/hf_chat_template.h"

namespace fp {
namespace {

constexpr DocumentKind kTemplateDocument = {"chat template", "has the sections user and assistant"};

struct TemplateRole {
  std::string before, after;
};

// The sections of the file, of which some may be absent.
struct TemplateDocument {
  std::string begin;
  TemplateRole system, user, assistant;
  std::string default_system;
  bool trim = false;
};

void declare(Fields& f, TemplateRole& s) {
  f.add("before", s.before, {.doc = "Text before a message of this role."});
  f.add("after", s.after, {.doc = "Text after a message of this role."});
}

void declare(Fields& f, TemplateDocument& s) {
  f.add("begin", s.begin, {.doc = "Text before the first message."});
  f.add("system", s.system, {.doc = "Messages with the role system; if absent, they are refused."});
  f.add("user", s.user, {.doc = "Messages with the role user."});
  f.add("assistant", s.assistant,
        {.doc = "Answers. `after` begins with the special token that ends an answer, or with {eos}."});
  f.add("default_system", s.default_system, {.doc = "System message of conversations that have none."});
  f.add("trim", s.trim, {.doc = "Messages lose the white space around them."});
}

ChatTemplate by_header(const std::string& begin, const std::string& before, const std::string& after, bool trim) {
  const auto text = [&](const std::string& role) {
    RoleText result{before, after};
    result.before.replace(result.before.find("ROLE"), 4, role);
    return result;
  };
  return {begin, text("system"), text("user"), text("assistant"), std::nullopt, trim};
}

const std::vector<std::pair<std::string, ChatTemplate>>& built_in() {
  static const std::vector<std::pair<std::string, ChatTemplate>> list = {
      {"chatml", by_header("", "<|im_start|>ROLE\n", "<|im_end|>\n", false)},
      {"plain", {"", RoleText{"", "\n\n"}, {"User:\n", "\n\n"}, {"Assistant:\n", "{eos}"}, std::nullopt, true}},
      {"phi3", by_header("", "<|ROLE|>\n", "<|end|>\n", false)},
      {"phi3-small", by_header("<|endoftext|>", "<|ROLE|>\n", "<|end|>\n", false)},
      {"llama3", by_header("<|begin_of_text|>", "<|start_header_id|>ROLE<|end_header_id|>\n\n", "<|eot_id|>", true)},
  };
  return list;
}

}  // namespace

const RoleText* ChatTemplate::role(std::string_view name) const {
  if (name == "system") return system ? &*system : nullptr;
  return name == "user" ? &user : name == "assistant" ? &assistant : nullptr;
}

const std::vector<std::string>& chat_template_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const auto& [name, chat_template] : built_in()) list.push_back(name);
    return list;
  }();
  return names;
}

ChatTemplate find_chat_template(const std::string& name) {
  for (const auto& [known, chat_template] : built_in())
    if (known == name) return chat_template;
  if (name.starts_with('{')) return parse_chat_template(name, "chat template");
  throw ConfigError(
      fmt::format("chat template {}: legal values: {}", shown(name), fmt::join(chat_template_names(), ", ")));
}

std::string serialize(const ChatTemplate& t) {
  for (const auto& [name, chat_template] : built_in())
    if (chat_template == t) return name;
  const auto role = [](const RoleText& text) {
    return nlohmann::ordered_json{{"before", text.before}, {"after", text.after}};
  };
  nlohmann::ordered_json json = {{"begin", t.begin}};
  if (t.system) json["system"] = role(*t.system);
  json["user"] = role(t.user);
  json["assistant"] = role(t.assistant);
  if (t.default_system) json["default_system"] = *t.default_system;
  json["trim"] = t.trim;
  return json.dump();
}

ChatTemplate parse_chat_template(std::string_view yaml, const std::string& where) {
  if (utf8_valid_prefix(yaml) != yaml.size()) throw ConfigError(fmt::format("{}: a chat template is UTF-8", where));
  Problems problems;
  const YamlNode root = parse_document(yaml, where, kTemplateDocument);
  TemplateDocument document;
  Written written;
  decode(root, fields_of(document), written, problems);
  for (const char* section : {"user", "assistant"})
    if (!written.has(section)) problems.add({where}, fmt::format("section {} is missing", section));
  if (written.has("default_system") && !written.has("system"))
    problems.add(written.places.at("default_system"), "default_system needs the section system");
  problems.throw_if_any();
  const auto role = [](const TemplateRole& r) { return RoleText{r.before, r.after}; };
  ChatTemplate result{document.begin,           std::nullopt, role(document.user),
                      role(document.assistant), std::nullopt, document.trim};
  if (written.has("system")) result.system = role(document.system);
  if (written.has("default_system")) result.default_system = document.default_system;
  return result;
}

ChatTemplate load_chat_template(const std::string& name) {
  const auto& names = chat_template_names();
  if (std::find(names.begin(), names.end(), name) != names.end()) return find_chat_template(name);
  const std::filesystem::path path = name;
  if (!std::filesystem::exists(path))
    throw ConfigError(
        fmt::format("chat template {}: is neither a template nor a file; legal: {}, the path of a template file "
                    "(.yaml) or a Hugging "
                    "Face folder",
                    shown(name), fmt::join(names, ", ")));
  if (std::filesystem::is_directory(path) || path.extension() == ".json" || path.extension() == ".jinja")
    return read_hf_chat_template(path);
  return parse_chat_template(read_document(path, kTemplateDocument), name);
}

}  // namespace fp
