#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <iostream>

#include "base/log.h"
#include "chat_session.h"
#include "cmd_data.h"
#include "commands.h"
#include "device.h"
#include "hdf5_flag.h"
#include "inference/inference.h"
#include "inference/text_generation.h"
#include "older_flag.h"

namespace fp {
namespace {

struct GenerateArguments {
  std::string checkpoint, prompt, precision, device = "auto";
  bool chat = false;
  std::string chat_template, system;
  GenerationOptions generation;
  int64_t context = 0;
  int threads = 0;
  bool ignore_eot = false;
  std::vector<std::string> stops;
  Hdf5Flag hdf5;
  OlderFlag older;
};

// Returns the tokens that end the text: end of text, the model's own end tokens, and those of --stop.
std::vector<int32_t> stop_ids(const GenerateArguments& a, const LoadedModel& loaded) {
  std::vector<int32_t> ids;
  if (!a.ignore_eot) {
    ids = loaded.source().stop_ids();
    ids.push_back(loaded.tokenizer().eot());
  }
  for (const std::string& token : a.stops) {
    const auto id = loaded.tokenizer().special_id(token);
    if (!id) throw ConfigError(fmt::format("--stop {}: is not a special token of this model's tokenizer", token));
    ids.push_back(*id);
  }
  return ids;
}

// The factors are chosen once, by the allocated context, so that they do not change within a text.
void say_factors(const RopeSpec& rope, int64_t context) {
  if (rope.kind != RopeKind::longrope) return;
  const bool is_long = context > rope.original_max_position;
  log::info("longrope: {} factors, as the context of {} positions is {} model.rope.original_max_position = {}",
            is_long ? "long" : "short", context, is_long ? "over" : "within", rope.original_max_position);
}

void emit(const std::string& piece) {
  write_out(piece);
  std::fflush(stdout);
}

// Runs `generate_text` and logs its speed. `step` is that of the checkpoint.
template <class Generate>
void log_generation(int64_t step, const Generate& generate_text) {
  const auto start = std::chrono::steady_clock::now();
  const GenerationResult r = generate_text();
  std::fputs("\n", stdout);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  log::info("step {}: {} prompt tokens, {} new tokens in {:.3g} s ({:.1f} tokens/s){}", step, r.prompt_tokens,
            r.new_tokens, seconds.count(), static_cast<double>(r.new_tokens) / seconds.count(),
            r.stopped ? ", ended by the model" : "");
}

// Answers --prompt, or without one each line of standard input.
void run_chat(const GenerateArguments& a, int64_t step, ChatSession& session) {
  if (!a.prompt.empty()) return log_generation(step, [&] { return session.answer(a.prompt, emit); });
  const bool terminal = ::isatty(STDIN_FILENO) == 1;
  for (std::string line;;) {
    if (terminal) std::fputs("> ", stderr);
    if (!std::getline(std::cin, line)) return;
    if (!line.empty()) log_generation(step, [&] { return session.answer(line, emit); });
  }
}

// Returns the number of positions to allocate for a prompt. A conversation on standard input gets all that the model
// was trained with.
int64_t positions_for(const GenerateArguments& a, const ModelSection& model, size_t prompt_tokens) {
  if (a.context > 0) return a.context;
  if (a.chat && a.prompt.empty()) return model.max_position;
  const int64_t wanted = static_cast<int64_t>(prompt_tokens) + a.generation.max_tokens;
  return model.traits().learned_positions ? std::min(wanted, model.max_position) : wanted;
}

void run_generate(GenerateArguments& a) {
  a.chat = a.chat || !a.chat_template.empty() || !a.system.empty();
  const auto ops = open_device(device_named(a.device), a.threads);
  const auto counting = make_counting_ops(ops.get());
  LoadedModel loaded(a.checkpoint, a.older.value());
  std::optional<ChatEncoder> chat;
  if (a.chat) chat.emplace(loaded.tokenizer(), ChatOptions{choose_chat_format(a.chat_template, loaded.source()), true});
  const auto prompt = chat ? first_question(*chat, a.system, a.prompt) : prompt_tokens(loaded.tokenizer(), a.prompt);
  InferenceOptions use;
  use.precision = named<DType>(a.precision);
  use.context = positions_for(a, loaded.spec().model, prompt.size());
  say_factors(loaded.spec().model.rope, use.context);
  loaded.load(use, *ops, *counting, make_self_groups());
  a.generation.stop_ids = stop_ids(a, loaded);
  Decoder decoder(loaded.model(), use.context);
  if (chat) {
    ChatSession session(decoder, loaded.tokenizer(), *chat, a.system, a.generation);
    return run_chat(a, loaded.source().step(), session);
  }
  write_out(a.prompt);
  log_generation(loaded.source().step(),
                 [&] { return generate(decoder, loaded.tokenizer(), a.prompt, a.generation, emit); });
}

}  // namespace

void add_generate_command(cli::App& app, CommandResult&) {
  const auto a = std::make_shared<GenerateArguments>();
  SamplingOptions& s = a->generation.sampling;
  cli::App* command = app.add_subcommand("generate", "Generate text with a trained model");
  command
      ->add_option("--checkpoint", a->checkpoint, "checkpoint, run directory (its newest one), or Hugging Face folder")
      ->required();
  command->add_option("--prompt", a->prompt,
                      "text to continue; empty: start of a document. With --chat: a question; empty: each line of "
                      "standard input is one");
  command->add_flag("--chat", a->chat, "answer as the assistant of a conversation, by the model's own chat template");
  command->add_option("--chat-template", a->chat_template,
                      "chat with this template instead: chatml, plain, phi3, phi3-small, llama3, a template file or a "
                      "Hugging Face folder");
  command->add_option("--system", a->system, "chat: the system message");
  command
      ->add_option("--max-tokens", a->generation.max_tokens,
                   "maximum number of new tokens; without --context it also sets the context")
      ->capture_default_str()
      ->check(cli::Range(1, 1 << 30));
  command->add_option("--temperature", s.temperature, "0: always take the most likely token")
      ->capture_default_str()
      ->check(cli::Range(0.0, 100.0));
  command->add_option("--top-k", s.top_k, "sample from the k most likely tokens; 0: all")
      ->capture_default_str()
      ->check(cli::NonNegativeNumber);
  command->add_option("--top-p", s.top_p, "sample from the most likely tokens that together have this probability")
      ->capture_default_str()
      ->check(cli::Range(1e-6, 1.0));
  command->add_option("--seed", s.seed, "seed of the sampling; the same seed gives the same text")
      ->capture_default_str();
  command
      ->add_option("--context", a->context,
                   "number of positions to allocate; 0: prompt and max-tokens. If it is over "
                   "model.rope.original_max_position, longrope uses its long factors for the whole text")
      ->check(cli::NonNegativeNumber);
  command->add_option("--precision", a->precision, "default: as in training")->check(cli::IsMember({"bf16", "fp32"}));
  command->add_option("--device", a->device)->capture_default_str()->check(cli::IsMember(kDevices));
  command->add_option("--threads", a->threads, "0: all cores")->check(cli::Range(0, 4096));
  command->add_flag("--ignore-eot", a->ignore_eot, "continue after end-of-text and the model's own end tokens");
  command->add_option("--stop", a->stops, "special token that ends the text, such as <|end|>; repeatable");
  a->hdf5.add_to(*command);
  a->older.add_to(*command);
  command->callback([a] {
    a->hdf5.apply();
    run_generate(*a);
  });
}

}  // namespace fp
