// fptrain data prepare | train-tokenizer; the other subcommands are in their own files.
#include "cmd_data.h"

#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/log.h"
#include "base/parallel.h"
#include "base/shown.h"
#include "commands.h"
#include "data/prepare/prepare.h"
#include "data/prepare/train_tokenizer.h"
#include "data/text/chat_template.h"
#include "data/text/text_census.h"
#include "io/filesystem.h"
#include "io/writable_folder.h"

namespace fp {
namespace {

namespace fs = std::filesystem;

// Upper limit of counts on the command line: without a range, "-1" would be read as 2^64 - 1.
constexpr uint64_t kLarge = uint64_t{1} << 40;

// The options of the text that both commands read.
struct CorpusFlags {
  std::string files_from;
  int threads = 0;
};

void add_corpus_options(cli::App& command, CorpusOptions& corpus, CorpusFlags& flags) {
  command.add_option("INPUT", corpus.files,
                     "Files and folders, read in this order: text, or JSON lines (.jsonl); each also as .gz or .zst. "
                     "Folders are read with all folders in them, in the order of the names");
  command.add_option("--files-from", flags.files_from,
                     "File that lists further inputs, one path per line; -: standard input");
  command
      .add_option("--documents", corpus.documents,
                  "How plain text is split into documents: file (a file is one) | line | lines:N | blank-line "
                  "(paragraphs) | start:REGEX (a line that matches REGEX starts one)")
      ->capture_default_str();
  command
      .add_option(
          "--format", corpus.format,
          "auto (by the file's name: .jsonl and .ndjson are JSON lines, tables are refused, all else is text) | "
          "text | jsonl")
      ->capture_default_str();
  command.add_option("--text-field", corpus.text_field, "Field of a JSON line that holds the text")
      ->capture_default_str();
  command
      .add_option("--max-document", corpus.max_document,
                  "Maximum size of a document's text, or of its JSON line; larger ones are refused")
      ->as_size()
      ->capture_default_str();
  command.add_flag("--allow-bytes", corpus.allow_bytes, "Accept files of which more than 1 % is not text in UTF-8");
  command.add_option("--threads", flags.threads, "Threads; 0: the cores this process may use")
      ->check(cli::Range(0, 4096))
      ->capture_default_str();
}

void apply(const CorpusFlags& flags, CorpusOptions& corpus) {
  set_threads(flags.threads);
  if (flags.files_from.empty()) return;
  const std::vector<fs::path> more = read_file_list(flags.files_from);
  corpus.files.insert(corpus.files.end(), more.begin(), more.end());
}

std::string printable_names(const std::vector<fs::path>& paths) {
  std::vector<std::string> names;
  for (const fs::path& path : paths) names.push_back(printable(path.string()));
  return some_of(names);
}

void print_skipped(const std::vector<SkippedInput>& skipped) {
  std::map<std::string, std::vector<fs::path>> by_reason;
  for (const SkippedInput& s : skipped) by_reason[s.reason].push_back(s.path);
  for (const auto& [reason, paths] : by_reason) fmt::print("left out    {}: {}\n", reason, printable_names(paths));
}

// Prints what a user may not expect, before the facts of the folder.
void print_report(const InputReport& report) {
  print_skipped(report.skipped);
  if (!report.empty_files.empty())
    fmt::print("left out    files without text: {}\n", printable_names(report.empty_files));
  for (size_t i = 0; i < std::min<size_t>(report.not_text.size(), 10); ++i)
    fmt::print("not text    {} are not valid UTF-8; their bytes are kept\n", printable(report.not_text[i]));
  if (report.not_text.size() > 10) fmt::print("not text    ... and {} more files\n", report.not_text.size() - 10);
  if (report.divided)
    fmt::print("divided     {}: its end is held out, as there are too few files to hold out a whole one\n",
               printable(report.divided->string()));
}

// Documents of `line` and `lines:N` are as short as they were asked to be.
void warn_of_short_documents(const Manifest& m) {
  const SplitRecord& train = m.train;
  if (m.kind != DataKind::text || m.documents.starts_with("line") || train.documents == 0) return;
  std::fflush(stdout);  // the warning comes last
  if (train.tokens < kShortDocument * train.documents)
    log::warning(
        "the documents have {} tokens on average, so the model will learn to stop after about that many; if they are "
        "parts of larger texts, split them less finely (--documents file)",
        train.tokens / train.documents);
}

void add_prepare(cli::App& data) {
  struct Flags {
    PrepareOptions options;
    std::string chat, preferences;
    CorpusFlags corpus;
  };
  auto flags = std::make_shared<Flags>();
  PrepareOptions& o = flags->options;
  cli::App* command = data.add_subcommand("prepare", "Turn text into a folder of token shards to train on");
  add_corpus_options(*command, o.corpus, flags->corpus);
  command
      ->add_option("--tokenizer", o.tokenizer,
                   "bytes, a tokenizer file (tokenizer.json, SentencePiece, tiktoken) or a Hugging Face folder")
      ->required();
  command->add_option("--out", o.out, "Folder to create")->required();
  command->add_option("--validation-fraction", o.validation_fraction, "Fraction of the documents to hold out; 0: none")
      ->capture_default_str();
  command
      ->add_option("--validation-split", o.validation_split,
                   "last (documents at the end) | hash (by the hash of the text)")
      ->capture_default_str();
  command
      ->add_option("--drop-repeats", o.drop_repeats,
                   "Leave out training documents of at least this many tokens that repeat a held-out one (with "
                   "--validation-split last); 1: all of them; 0: none")
      ->check(cli::Range(uint64_t{0}, kLarge))
      ->capture_default_str();
  command->add_option("--shard-tokens", o.shard_tokens, "Tokens per shard file")
      ->check(cli::Range(uint64_t{1}, kLarge))
      ->capture_default_str();
  auto* parse_special = command->add_flag(
      "--parse-special", o.encoding.parse_special,
      "Encode special tokens written in the text, such as <|endoftext|>, as their ids instead of as text");
  auto* chat = command
                   ->add_option("--chat", flags->chat,
                                "Prepare conversations for fine-tuning; each JSON line is {\"messages\": [{\"role\", "
                                "\"content\"}, ...]}. The value is the chat template: chatml, plain, phi3, phi3-small, "
                                "llama3, a template file, or a Hugging Face folder with a chat_template")
                   ->excludes(parse_special);
  command
      ->add_option(
          "--preferences", flags->preferences,
          "Prepare pairs of answers with this template; each JSON line has \"messages\", \"chosen\" and \"rejected\"")
      ->excludes(parse_special)
      ->excludes(chat);
  command->add_flag("--allow-special-text", o.encoding.chat.allow_special_text,
                    "Encode the text of a special token in a message as text instead of refusing it");
  command->add_flag("--overwrite", o.overwrite, "Replace a folder made by an earlier `data prepare`");
  command->callback([flags] {
    apply(flags->corpus, flags->options.corpus);
    EncodingOptions& encoding = flags->options.encoding;
    const std::string chosen = flags->chat + flags->preferences;  // they exclude each other
    if (!chosen.empty()) encoding.chat.format = serialize(load_chat_template(chosen));
    if (!flags->chat.empty()) encoding.kind = DataKind::chat;
    if (!flags->preferences.empty()) encoding.kind = DataKind::preferences;
    if (encoding.chat.allow_special_text && encoding.kind == DataKind::text)
      throw ConfigError(
          "--allow-special-text: is for --chat and --preferences; special tokens in text stay text anyhow");
    InputReport report;
    const Manifest manifest = prepare(flags->options, &report);
    print_report(report);
    print_manifest(manifest);
    warn_of_short_documents(manifest);
  });
}

// Returns the reserved tokens and, behind them, the others of `special`.
std::vector<std::string> with_chat_tokens(const std::vector<std::string>& special) {
  std::vector<std::string> all = default_special_tokens();
  const auto reserved = std::set<std::string>(all.begin(), all.end());
  for (const std::string& token : special)
    if (!reserved.contains(token)) all.push_back(token);
  return all;
}

void add_train_tokenizer(cli::App& data) {
  struct Flags {
    TrainTokenizerOptions options;
    fs::path out;
    bool overwrite = false, no_chat_tokens = false;
    CorpusFlags corpus;
  };
  auto flags = std::make_shared<Flags>();
  TrainTokenizerOptions& o = flags->options;
  cli::App* command = data.add_subcommand("train-tokenizer", "Train a byte-level BPE tokenizer on text");
  add_corpus_options(*command, o.corpus, flags->corpus);
  command
      ->add_option("--vocab", o.vocab_size,
                   "Vocabulary size, including 256 bytes, <|endoftext|> and the special tokens")
      ->required();
  command
      ->add_option("--special", o.special_tokens,
                   "A special token, such as <|tool|>, to add to the reserved ones; repeatable")
      ->take_all()
      ->allow_extra_args(false);
  command->add_flag(
      "--no-chat-tokens", flags->no_chat_tokens,
      fmt::format("Do not reserve the tokens of chat templates ({})", fmt::join(default_special_tokens(), " ")));
  command->add_option("--min-frequency", o.min_frequency, "Minimum number of occurrences of a pair to be merged")
      ->capture_default_str();
  command->add_option("--out", flags->out, "The tokenizer.json to write")->required();
  command->add_flag("--overwrite", flags->overwrite, "Replace the file if it exists");
  command->callback([flags] {
    apply(flags->corpus, flags->options.corpus);
    auto& special = flags->options.special_tokens;
    if (!flags->no_chat_tokens) special = with_chat_tokens(special);
    if (fs::exists(flags->out) && !flags->overwrite)
      throw ConfigError(
          fmt::format("--out {}: exists already; choose another name or pass --overwrite", flags->out.string()));
    require_output_file(flags->out, "--out");
    std::vector<SkippedInput> skipped;
    const std::string json = train_tokenizer(flags->options, &skipped);
    output_file(flags->out, "--out", json);
    print_skipped(skipped);
    fmt::print("{}: {} tokens, of them {} special\n", flags->out.string(), flags->options.vocab_size,
               special.size() + 1);
  });
}

}  // namespace

void add_data_command(cli::App& app, CommandResult&) {
  cli::App* data = app.add_subcommand("data", "Prepare text for training");
  data->require_subcommand(1);
  add_prepare(*data);
  add_train_tokenizer(*data);
  add_data_inspect(*data);
  add_data_convert(*data);
  add_data_key_values(*data);
  add_tokenize_commands(*data);
}

}  // namespace fp
