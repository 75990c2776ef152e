#include "data/text/hf_chat_template.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/shown.h"
#include "base/utf8.h"
#include "data/text/conversation.h"
#include "data/text/jinja.h"
#include "io/filesystem.h"
#include "io/json.h"

namespace fp {
namespace {

constexpr const char* kConfigFile = "tokenizer_config.json";
constexpr const char* kJinjaFile = "chat_template.jinja";

std::string without_padding(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \n"), end = text.find_last_not_of(" \n");
  return begin == std::string::npos ? "" : text.substr(begin, end + 1 - begin);
}

// What a Jinja template makes of a conversation; nothing where it refuses it.
class Prober {
 public:
  Prober(const std::string& jinja, std::string bos, std::string eos, const std::string& where)
      : template_(jinja, where), bos_(std::move(bos)), eos_(std::move(eos)), where_(where) {}

  std::optional<std::string> render(const std::vector<Message>& messages, bool prompt) const {
    nlohmann::json list = nlohmann::json::array();
    for (const Message& m : messages) list.push_back({{"role", m.role}, {"content", m.content}});
    try {
      return template_.render(
          {{"messages", list}, {"bos_token", bos_}, {"eos_token", eos_}, {"add_generation_prompt", prompt}});
    } catch (const JinjaRefusal&) {
      return std::nullopt;
    }
  }
  std::string require(const std::vector<Message>& messages, bool prompt = false) const {
    const auto text = render(messages, prompt);
    if (!text) fail("it refuses a conversation of a user and an assistant");
    return *text;
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw ConfigError(
        fmt::format("{}: this chat_template cannot be used: {}; legal: one that puts fixed text around each message; "
                    "choose another "
                    "template (chatml, plain, ...) or write a template file",
                    where_, what));
  }

 private:
  JinjaTemplate template_;
  std::string bos_, eos_, where_;
};

const Message kQuestion = {"user", "FIRSTquestion"}, kAnswer = {"assistant", "FIRSTanswer"},
              kQuestion2 = {"user", "SECONDquestion"}, kAnswer2 = {"assistant", "SECONDanswer"},
              kSystem = {"system", "THEsystem"};

// Returns the text before, between and after the contents of the messages; nothing where one of them is missing.
std::optional<std::vector<std::string>> around(const std::string& text, const std::vector<Message>& messages) {
  std::vector<std::string> parts;
  size_t at = 0;
  for (const Message& m : messages) {
    const size_t found = text.find(m.content, at);
    if (found == std::string::npos) return std::nullopt;
    parts.push_back(text.substr(at, found - at));
    at = found + m.content.size();
  }
  parts.push_back(text.substr(at));
  return parts;
}

// Removes `end` from the end of `text`.
std::string without_end(const Prober& prober, const std::string& text, const std::string& end) {
  if (!text.ends_with(end))
    prober.fail(fmt::format("the text \"{}\" does not end with \"{}\"", shown(text), shown(end)));
  return text.substr(0, text.size() - end.size());
}

void find_roles(const Prober& prober, ChatTemplate& t) {
  const auto parts =
      around(prober.require({kQuestion, kAnswer, kQuestion2, kAnswer2}), {kQuestion, kAnswer, kQuestion2, kAnswer2});
  if (!parts) prober.fail("it leaves out messages");
  const auto question = around(prober.require({kQuestion}), {kQuestion});
  if (!question || !(*parts)[1].starts_with((*question)[1])) prober.fail("the text after the last question differs");
  t.user.after = (*question)[1];
  t.assistant.before = (*parts)[1].substr(t.user.after.size());
  t.assistant.after = (*parts)[4];
  if (!(*parts)[2].starts_with(t.assistant.after))
    prober.fail("the text after the last answer differs from the others");
  t.user.before = (*parts)[2].substr(t.assistant.after.size());
  t.begin = without_end(prober, (*parts)[0], t.user.before);
}

// A template that writes a system message always has a default one. Others may refuse it or hide it in the question:
// then there is no text for it, and such conversations are refused.
void find_system(const Prober& prober, ChatTemplate& t) {
  const auto text = prober.render({kSystem, kQuestion, kAnswer}, false);
  const auto parts = text ? around(*text, {kSystem, kQuestion, kAnswer}) : std::nullopt;
  if (!parts || !(*parts)[1].ends_with(t.user.before)) return;
  const std::string before = (*parts)[0];
  const std::string after = (*parts)[1].substr(0, (*parts)[1].size() - t.user.before.size());
  if (before.starts_with(t.begin)) {
    t.system = RoleText{before.substr(t.begin.size()), after};
  } else if (t.begin.starts_with(before) && t.begin.ends_with(after) &&
             t.begin.size() >= before.size() + after.size()) {
    t.default_system = t.begin.substr(before.size(), t.begin.size() - before.size() - after.size());
    t.system = RoleText{before, after};
    t.begin = "";
  }
}

std::string render_text(const ChatTemplate& t, std::vector<Message> messages, bool prompt) {
  if (t.default_system && (messages.empty() || messages[0].role != "system"))
    messages.insert(messages.begin(), {"system", *t.default_system});
  std::string text = t.begin;
  for (const Message& m : messages) {
    const RoleText* role = t.role(m.role);
    text += role->before + (t.trim ? without_padding(m.content) : m.content) + role->after;
  }
  return prompt ? text + t.assistant.before : text;
}

Message padded(Message m) {
  m.content = "\n " + m.content + " \n";
  return m;
}

bool is_utf8(const std::string& text) { return utf8_valid_prefix(text) == text.size(); }

// Compares with the Jinja template for conversations that find_roles() and find_system() have not seen.
void prove(const Prober& prober, const ChatTemplate& t) {
  for (const char* name : {"system", "user", "assistant"})
    if (const RoleText* role = t.role(name); role && !is_utf8(role->before + role->after))
      prober.fail("it divides characters");
  if (!is_utf8(t.begin + t.default_system.value_or(""))) prober.fail("it divides characters");
  std::vector<std::vector<Message>> talks = {{kQuestion}, {kQuestion, kAnswer}};
  const Message third = {"user", "a b\n\nc <d> {e}"}, fourth = {"assistant", "1. f\n2. g"};
  talks.push_back({kQuestion, kAnswer, third, fourth, kQuestion2, kAnswer2});
  talks.push_back({padded(kQuestion), padded(kAnswer), padded(kQuestion2), padded(kAnswer2)});
  const size_t plain = talks.size();
  for (size_t i = 0; t.system && i < plain; ++i) {
    talks.push_back(talks[i]);
    talks.back().insert(talks.back().begin(), i + 1 == plain ? padded(kSystem) : kSystem);
  }
  // Some templates ignore add_generation_prompt.
  const bool prompts = prober.require({kQuestion}, true) != prober.require({kQuestion});
  for (const auto& talk : talks) {
    const bool prompt = prompts && talk.back().role == "user";
    const std::string theirs = prober.require(talk, prompt), ours = render_text(t, talk, prompt);
    if (theirs == ours) continue;
    const auto differ = static_cast<size_t>(
        std::mismatch(theirs.begin(), theirs.end(), ours.begin(), ours.end()).first - theirs.begin());
    prober.fail(
        fmt::format("of a conversation of {} messages it makes \"{}\" after \"{}\", where the text around messages "
                    "would be \"{}\"",
                    talk.size(), shown(theirs.substr(differ, 30)),
                    shown(theirs.substr(differ - std::min<size_t>(differ, 20), std::min<size_t>(differ, 20))),
                    shown(ours.substr(std::min(differ, ours.size()), 30))));
  }
}

// Reads a token of tokenizer_config.json: "..." or {"content": "..."}.
std::string token_of(const nlohmann::json& config, const char* name) {
  const auto it = config.find(name);
  if (it == config.end()) return "";
  const nlohmann::json& value = it->is_object() && it->contains("content") ? it->at("content") : *it;
  return value.is_string() ? value.get<std::string>() : "";
}

// Returns the field chat_template: a text, or a list of templates of which one has the name "default".
std::string template_of(const nlohmann::json& config) {
  const auto it = config.find("chat_template");
  if (it == config.end()) return "";
  if (it->is_string()) return it->get<std::string>();
  if (it->is_array())
    for (const auto& entry : *it)
      if (entry.is_object() && entry.value("name", nlohmann::json()) == "default" && entry.contains("template") &&
          entry.at("template").is_string())
        return entry.at("template").get<std::string>();
  throw DataError(fmt::format("{}: chat_template is {}; legal: a text, or a list with a template named default",
                              kConfigFile, it->type_name()));
}

}  // namespace

ChatTemplate chat_template_from_jinja(const std::string& jinja, const std::string& bos, const std::string& eos,
                                      const std::string& where) {
  if (!is_utf8(jinja)) throw DataError(fmt::format("{}: chat_template is not UTF-8", where));
  const Prober prober(jinja, bos.empty() ? "{bos}" : bos, eos.empty() ? "{eos}" : eos, where);
  ChatTemplate t;
  find_roles(prober, t);
  find_system(prober, t);
  const std::vector<Message> spaced = {padded(kQuestion), kAnswer};
  t.trim = prober.require(spaced) != render_text(t, spaced, false);
  prove(prober, t);
  return t;
}

std::optional<ChatTemplate> hf_chat_template(const std::map<std::string, std::string>& files) {
  nlohmann::json config = nlohmann::json::object();
  if (const auto it = files.find(kConfigFile); it != files.end()) config = parse_json(it->second, kConfigFile);
  if (!config.is_object()) throw DataError(fmt::format("{}: is {}, not an object", kConfigFile, config.type_name()));
  const auto file = files.find(kJinjaFile);
  const std::string jinja = file != files.end() ? file->second : template_of(config);
  if (jinja.empty()) return std::nullopt;
  return chat_template_from_jinja(jinja, token_of(config, "bos_token"), token_of(config, "eos_token"),
                                  file != files.end() ? kJinjaFile : kConfigFile);
}

ChatTemplate read_hf_chat_template(const std::filesystem::path& path) {
  std::map<std::string, std::string> files;
  if (std::filesystem::is_directory(path)) {
    for (const char* name : {kConfigFile, kJinjaFile})
      if (std::filesystem::exists(path / name)) files[name] = read_file(path / name);
  } else {
    files[path.extension() == ".jinja" ? kJinjaFile : kConfigFile] = read_file(path);
  }
  const auto found = hf_chat_template(files);
  if (!found)
    throw ConfigError(fmt::format("{}: has no chat_template ({} or {}); name a template: {}", path.string(),
                                  kConfigFile, kJinjaFile, fmt::join(chat_template_names(), ", ")));
  return *found;
}

}  // namespace fp
