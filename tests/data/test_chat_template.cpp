// Chat templates from files: our own form, and the Jinja templates of published models.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/support.h"
#include "data/text/chat_template.h"
#include "data/text/hf_chat_template.h"

using namespace fp;
using namespace fp::test;
using Catch::Matchers::Contains;

namespace {

ChatTemplate from_jinja(const std::string& jinja) { return chat_template_from_jinja(jinja, "<s>", "</s>", "t.jinja"); }

std::string refusal_of(const std::string& jinja) {
  return message_of<UserError>([&] { from_jinja(jinja); });
}

}  // namespace

TEST_CASE("a chat template survives serialization, and built-in ones keep their names") {
  for (const std::string& name : chat_template_names()) CHECK(serialize(find_chat_template(name)) == name);
  const ChatTemplate own = parse_chat_template(
      "begin: \"{bos}\"\n"
      "system: {before: \"S: \", after: \"\\n\"}\n"
      "user: {before: \"Q: \", after: \"\\n\"}\n"
      "assistant: {before: \"A: \", after: \"{eos}\"}\n"
      "default_system: Be kind.\n"
      "trim: true\n",
      "own.yaml");
  CHECK(own.begin == "{bos}");
  CHECK(own.role("assistant")->after == "{eos}");
  CHECK(own.default_system == "Be kind.");
  CHECK(own.trim);
  CHECK(find_chat_template(serialize(own)) == own);
  CHECK(own.role("tool") == nullptr);
}

TEST_CASE("mistakes in a template file are refused with line and key") {
  const auto error = [](const std::string& yaml) {
    return message_of<ConfigError>([&] { parse_chat_template(yaml, "own.yaml"); });
  };
  CHECK_THAT(error("user: {before: x}\n"), Contains("section assistant is missing"));
  CHECK_THAT(error("user: {befor: x}\nassistant: {after: \"{eos}\"}\n"),
             Contains("own.yaml:1:8: unknown key 'user.befor'. Did you mean 'before'?"));
  CHECK_THAT(error("user: {}\nassistant: {}\ndefault_system: x\n"), Contains("own.yaml:3:17: default_system needs"));
  CHECK_THAT(message_of<ConfigError>([] { load_chat_template("alpaca"); }),
             Contains("chat template alpaca") && Contains("chatml, plain, phi3"));
}

TEST_CASE("Jinja templates of published kinds become the text around messages") {
  CHECK(serialize(
            from_jinja("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] "
                       "+ '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ "
                       "'<|im_start|>assistant\\n' }}{% endif %}")) == "chatml");
  // Llama 3: the first message also gets the begin-of-text token; messages are trimmed.
  const ChatTemplate llama = from_jinja(
      "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + "
      "message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 "
      "%}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ "
      "'<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}");
  CHECK(llama.begin == "<s>");
  CHECK(llama.trim);
  CHECK(llama.user == find_chat_template("llama3").user);
  CHECK(llama.system == find_chat_template("llama3").system);
  // Mistral: no system message, roles must alternate.
  const ChatTemplate mistral = from_jinja(
      "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ "
      "raise_exception('Conversation roles must alternate') }}{% endif %}{% if message['role'] == 'user' %}{{ '[INST] "
      "' + "
      "message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ message['content'] + "
      "eos_token}}{% "
      "else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}");
  CHECK(mistral.begin == "<s>");
  CHECK(mistral.user == RoleText{"[INST] ", " [/INST]"});
  CHECK(mistral.assistant == RoleText{"", "</s>"});
  CHECK_FALSE(mistral.system);
  // Zephyr, with line ends and indentation that transformers removes.
  const ChatTemplate zephyr = from_jinja(
      "{% for message in messages %}\n    {% if message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] + "
      "eos_token }}\n    {% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + message['content'] + eos_token "
      "}}\n"
      "    {% elif message['role'] == 'assistant' %}\n{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n    "
      "{% "
      "endif %}\n    {% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n    {% endif %}\n{% endfor "
      "%}");
  CHECK(zephyr.user == RoleText{"<|user|>\n", "</s>\n"});
  CHECK(zephyr.assistant.after == "</s>\n");
}

TEST_CASE("a default system message and a renamed role are read from Jinja templates") {
  const ChatTemplate qwen = from_jinja(
      "{%- if messages[0]['role'] == 'system' %}\n    {{- '<|im_start|>system\\n' + messages[0]['content'] + "
      "'<|im_end|>\\n' "
      "}}\n{%- else %}\n    {{- '<|im_start|>system\\nYou are helpful.<|im_end|>\\n' }}\n{%- endif %}\n{%- for message "
      "in "
      "messages %}\n    {%- if (message.role == \"user\") or (message.role == \"system\" and not loop.first) or "
      "(message.role == \"assistant\" and not message.tool_calls) %}\n        {{- '<|im_start|>' + message.role + "
      "'\\n' + "
      "message.content + '<|im_end|>' + '\\n' }}\n    {%- endif %}\n{%- endfor %}\n{%- if add_generation_prompt %}\n   "
      " {{- "
      "'<|im_start|>assistant\\n' }}\n{%- endif %}\n");
  CHECK(qwen.default_system == "You are helpful.");
  CHECK(qwen.system == find_chat_template("chatml").system);
  CHECK(qwen.begin.empty());
  const ChatTemplate gemma = from_jinja(
      "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% "
      "endif "
      "%}{% for message in messages %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% "
      "set "
      "role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + "
      "'<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}");
  CHECK(gemma.assistant == RoleText{"<start_of_turn>model\n", "<end_of_turn>\n"});
  CHECK_FALSE(gemma.system);
}

TEST_CASE("Jinja templates that do more than to put text around messages are refused") {
  CHECK_THAT(refusal_of("{% for m in messages %}{{ m.role + ': ' + m.content|upper }}\n{% endfor %}"),
             Contains("leaves out messages"));
  CHECK_THAT(refusal_of("{% for m in messages %}{{ loop.index ~ m.role + ': ' + m.content + ';' }}{% endfor %}"),
             Contains("t.jinja: this chat_template cannot be used"));
  CHECK_THAT(
      refusal_of("{% for m in messages %}{{ '<' + m.role + '>' + m.content.replace('\\n\\n', ' ') }}{% endfor %}"),
      Contains("of a conversation of 6 messages"));
  CHECK_THAT(refusal_of("{% macro f() %}{% endmacro %}"), Contains("line 1: the statement 'macro'"));
  CHECK_THAT(refusal_of("a\n{{ messages | map('x') }}"), Contains("line 2: the filter 'map'"));
}

TEST_CASE("the files of a Hugging Face folder hold the template and its tokens") {
  const std::string jinja =
      "{{ bos_token }}{% for m in messages %}{{ m.role + ' ' + m.content + eos_token }}{% endfor %}";
  const nlohmann::json config = {{"bos_token", {{"content", "<B>"}}}, {"eos_token", "<E>"}, {"chat_template", jinja}};
  const auto t = hf_chat_template({{"tokenizer_config.json", config.dump()}});
  REQUIRE(t);
  CHECK(t->begin == "<B>");
  CHECK(t->assistant.after == "<E>");
  auto named = config;
  named["chat_template"] = {{{"name", "tool_use"}, {"template", "x"}}, {{"name", "default"}, {"template", jinja}}};
  CHECK(hf_chat_template({{"tokenizer_config.json", named.dump()}}) == t);
  CHECK(hf_chat_template({{"chat_template.jinja", jinja}})->assistant.after == "{eos}");
  CHECK_FALSE(hf_chat_template({{"tokenizer_config.json", "{}"}}));
  const TemporaryFolder dir;
  write_text(dir / "tokenizer_config.json", config.dump());
  CHECK(load_chat_template(dir.path.string()) == *t);
  write_text(dir / "tokenizer_config.json", "{}");
  CHECK_THAT(message_of<ConfigError>([&] { load_chat_template(dir.path.string()); }), Contains("has no chat_template"));
}
