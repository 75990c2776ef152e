// fptrain data prepare | train-tokenizer; the other subcommands are in their own files.
#include "cmd_data.h"

#include <memory>
#include <string>

#include "base/parallel.h"
#include "commands.h"
#include "data/prepare/prepare.h"
#include "data/prepare/train_tokenizer.h"
#include "io/filesystem.h"

namespace fp {
namespace {

namespace fs = std::filesystem;

// Upper limit of counts on the command line: without a range, "-1" would be read as 2^64 - 1.
constexpr uint64_t kLarge = uint64_t{1} << 40;

void add_corpus_options(cli::App& command, CorpusOptions& corpus, int& threads) {
  command
      .add_option("FILE", corpus.files, "Text or JSON lines (.txt, .jsonl; also as .gz or .zst), read in this order")
      ->required();
  command
      .add_option("--documents", corpus.documents,
                  "How plain text is split into documents: file | line | lines:N | blank-line (paragraphs) | "
                  "start:REGEX (a line "
                  "that matches REGEX starts one)")
      ->capture_default_str();
  command.add_option("--format", corpus.format, "auto (by the file's name) | text | jsonl")->capture_default_str();
  command.add_option("--text-field", corpus.text_field, "Field of a JSON line that holds the text")
      ->capture_default_str();
  command
      .add_option("--max-document", corpus.max_document,
                  "Maximum size of a document's text, or of its JSON line; larger ones are refused")
      ->as_size()
      ->capture_default_str();
  command.add_option("--threads", threads, "Threads; 0: the cores this process may use")
      ->check(cli::Range(0, 4096))
      ->capture_default_str();
}

void add_prepare(cli::App& data) {
  struct Flags {
    PrepareOptions options;
    std::string chat, preferences;
    int threads = 0;
  };
  auto flags = std::make_shared<Flags>();
  PrepareOptions& o = flags->options;
  cli::App* command = data.add_subcommand("prepare", "Turn text into a folder of token shards to train on");
  add_corpus_options(*command, o.corpus, flags->threads);
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
  command->add_option("--shard-tokens", o.shard_tokens, "Tokens per shard file")
      ->check(cli::Range(uint64_t{1}, kLarge))
      ->capture_default_str();
  auto* parse_special = command->add_flag(
      "--parse-special", o.encoding.parse_special,
      "Encode special tokens written in the text, such as <|endoftext|>, as their ids instead of as text");
  const cli::IsMember templates({"phi3", "phi3-small", "llama3"});
  auto* chat = command
                   ->add_option("--chat", flags->chat,
                                "Prepare conversations for fine-tuning with this template; each JSON line is "
                                "{\"messages\": [{\"role\", \"content\"}, ...]}")
                   ->check(templates)
                   ->excludes(parse_special);
  command
      ->add_option(
          "--preferences", flags->preferences,
          "Prepare pairs of answers with this template; each JSON line has \"messages\", \"chosen\" and \"rejected\"")
      ->check(templates)
      ->excludes(parse_special)
      ->excludes(chat);
  command->add_flag("--allow-special-text", o.encoding.chat.allow_special_text,
                    "Encode the text of a special token in a message as text instead of refusing it");
  command->add_flag("--overwrite", o.overwrite, "Replace a folder made by an earlier `data prepare`");
  command->callback([flags] {
    set_threads(flags->threads);
    EncodingOptions& encoding = flags->options.encoding;
    encoding.chat.format = flags->chat + flags->preferences;  // they exclude each other
    if (!flags->chat.empty()) encoding.kind = DataKind::chat;
    if (!flags->preferences.empty()) encoding.kind = DataKind::preferences;
    if (encoding.chat.allow_special_text && encoding.kind == DataKind::text)
      throw ConfigError(
          "--allow-special-text: is for --chat and --preferences; special tokens in text stay text anyhow");
    print_manifest(prepare(flags->options));
  });
}

void add_train_tokenizer(cli::App& data) {
  struct Flags {
    TrainTokenizerOptions options;
    fs::path out;
    bool overwrite = false;
    int threads = 0;
  };
  auto flags = std::make_shared<Flags>();
  TrainTokenizerOptions& o = flags->options;
  cli::App* command = data.add_subcommand("train-tokenizer", "Train a byte-level BPE tokenizer on text");
  add_corpus_options(*command, o.corpus, flags->threads);
  command->add_option("--vocab", o.vocab_size, "Vocabulary size, including 256 bytes and <|endoftext|>")->required();
  command->add_option("--min-frequency", o.min_frequency, "Minimum number of occurrences of a pair to be merged")
      ->capture_default_str();
  command->add_option("--out", flags->out, "The tokenizer.json to write")->required();
  command->add_flag("--overwrite", flags->overwrite, "Replace the file if it exists");
  command->callback([flags] {
    set_threads(flags->threads);
    if (fs::exists(flags->out) && !flags->overwrite)
      throw ConfigError(
          fmt::format("--out {}: exists already; choose another name or pass --overwrite", flags->out.string()));
    const std::string json = train_tokenizer(flags->options);
    write_file_atomically(flags->out, json);
    fmt::print("{}: {} tokens\n", flags->out.string(), flags->options.vocab_size);
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
  add_tokenize_commands(*data);
}

}  // namespace fp
