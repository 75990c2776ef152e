// Chat with a model of one's own: special tokens, templates, what is learned, and generate --chat.
#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include "cli/workspace.h"

using namespace fp::test;
using Catch::Matchers::Contains;

namespace {

// A folder with a tokenizer and 40 conversations.
struct ChatFolder : TemporaryFolder {
  ChatFolder() {
    std::ofstream text(path / "text.txt"), chat(path / "chat.jsonl");
    for (int i = 0; i < 40; ++i) {
      text << "Moses went unto the place number " << i << ".\n";
      chat
          << R"({"messages": [{"role": "user", "content": "Where did Moses go?"}, {"role": "assistant", "content": "Unto )"
          << i << "\"}]}\n";
    }
    text.close();
    chat.close();
    REQUIRE(fptrain_in("data train-tokenizer --vocab 290 --special '<|tool|>' --out t.json text.txt").code == 0);
  }
  Outcome fptrain_in(const std::string& arguments) const {
    return run_shell("cd '" + path.string() + "' && '" FP_EXECUTABLE "' " + arguments);
  }
  void train(const std::string& data) const {
    std::ofstream(path / "run.yaml")
        << "run: {name: sft, threads: 1, device: cpu}\n"
           "model: {family: llama, layers: 1, hidden: 16, heads: 2, ffn: 32, max_position: 64}\n"
           "data: {train: [{path: " +
               data +
               "}], seq_len: 48, sampling: documents}\n"
               "optimizer: {lr: 1e-2}\n"
               "train: {objective: sft, steps: 3, global_batch: 4, micro_batch: 4}\n"
               "logging: {report: false}\n";
    const Outcome o = fptrain_in("train run.yaml");
    INFO(o.output);
    REQUIRE(o.code == 0);
  }
};

}  // namespace

TEST_CASE("a tokenizer of one's own reserves the special tokens of chat templates and those asked for") {
  const ChatFolder place;
  std::ofstream(place / "s.txt") << "<|im_start|><|tool|><|endoftext|>";
  CHECK(place.fptrain_in("data tokenize --parse-special --tokenizer t.json s.txt").output == "281\n289\n280\n");
  CHECK_THAT(place.fptrain_in("data train-tokenizer --vocab 264 --out u.json text.txt").output,
             Contains("--vocab 264: legal: at least 265") && Contains("--no-chat-tokens"));
  CHECK_THAT(
      place.fptrain_in("data train-tokenizer --vocab 300 --special '<a>' --special '<a>' --out u.json text.txt").output,
      Contains("--special <a>: the tokenizer has this special token already"));
  CHECK(place.fptrain_in("data train-tokenizer --vocab 257 --no-chat-tokens --out u.json text.txt").code == 0);
}

TEST_CASE("data inspect shows special tokens, what is learned and how much is padding") {
  const ChatFolder place;
  REQUIRE(place.fptrain_in("data prepare --chat chatml --tokenizer t.json --out d chat.jsonl").code == 0);
  const Outcome o = place.fptrain_in("data inspect d --seq-len 64");
  INFO(o.output);
  CHECK_THAT(o.output, Contains("train[0]: <|im_start|>user\\nWhere did Moses go?<|im_end|>\\n<|im_start|>assistant\\n"
                                "[[Unto 0<|im_end|>]]\\n<|endoftext|>") &&
                           Contains(" % of the tokens are learned; the longest conversation has ") &&
                           Contains("one conversation per row of 64 tokens (--seq-len): ") && Contains(" % padding") &&
                           Contains("documents   one for each JSON line\n") && !Contains("blank-line"));
}

TEST_CASE("a model that was trained on conversations answers with its own template") {
  const ChatFolder place;
  std::ofstream(place / "own.yaml") << "user: {before: \"Q: \", after: \"\\n\"}\n"
                                       "assistant: {before: \"A:\\n\", after: \"<|reserved_0|>\\n\"}\n";
  REQUIRE(place.fptrain_in("data prepare --chat own.yaml --tokenizer t.json --out d chat.jsonl").code == 0);
  place.train("d");
  const std::string generate = "generate --device cpu --checkpoint runs/sft --max-tokens 4 --temperature 0 ";
  const Outcome one = place.fptrain_in(generate + "--chat --prompt 'Where?' 2>/dev/null");
  INFO(one.output);
  CHECK(one.code == 0);
  CHECK_THAT(one.output, !Contains("Where?"));
  // The prompt holds more than the question: the text of the template.
  const auto prompt_tokens = [&](const std::string& arguments) {
    const std::string log = place.fptrain_in(generate + arguments + " --prompt 'Where?' 2>&1 >/dev/null").output;
    INFO(log);
    REQUIRE_THAT(log, Contains(" prompt tokens"));  // after "step 2: "
    return std::stoi(log.substr(log.rfind(": ", log.find(" prompt tokens")) + 2));
  };
  CHECK(prompt_tokens("--chat") > prompt_tokens("") + 4);
  // Each line of standard input is a turn of one conversation.
  const Outcome two = place.fptrain_in(generate + "--chat < /dev/null");
  CHECK(two.code == 0);
  std::ofstream(place / "in") << "One?\nTwo?\n";
  const Outcome turns = place.fptrain_in(generate + "--chat < in 2>&1 >/dev/null");
  INFO(turns.output);
  CHECK(turns.output.find("prompt tokens") != turns.output.rfind("prompt tokens"));
  const Outcome other = place.fptrain_in(generate + "--chat-template alpaca --prompt x");
  CHECK(other.code == 2);
  CHECK_THAT(other.output, Contains("chat template alpaca") && Contains("chatml, plain"));
}

TEST_CASE("a model without a chat template names the ways to choose one") {
  const ChatFolder place;
  REQUIRE(place.fptrain_in("data prepare --documents line --tokenizer t.json --out d text.txt").code == 0);
  std::ofstream(place / "run.yaml")
      << "run: {name: text, threads: 1, device: cpu}\n"
         "model: {family: llama, layers: 1, hidden: 16, heads: 2, ffn: 32, max_position: 64}\n"
         "data: {train: [{path: d}], seq_len: 32}\n"
         "train: {steps: 1, global_batch: 2, micro_batch: 2}\n"
         "logging: {report: false}\n";
  REQUIRE(place.fptrain_in("train run.yaml").code == 0);
  const std::string generate = "generate --device cpu --checkpoint runs/text --max-tokens 2 --prompt x ";
  const Outcome none = place.fptrain_in(generate + "--chat");
  CHECK(none.code == 2);
  CHECK_THAT(none.output, Contains("was not trained on conversations") && Contains("--chat-template"));
  CHECK(place.fptrain_in(generate + "--chat-template plain --system 'Be kind.'").code == 0);
}
