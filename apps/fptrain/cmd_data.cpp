// fptrain data prepare | train-tokenizer | inspect, and what cmd_data_tokenize.cpp holds
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/filesystem.h"
#include "base/parallel.h"
#include "commands.h"
#include "data/dataset.h"
#include "data/prepare.h"
#include "data/train_tokenizer.h"

namespace fp {
namespace {

namespace fs = std::filesystem;

// Upper end of counts on the command line: without a range, "-1" would be read as 2^64 - 1.
constexpr uint64_t kLarge = uint64_t{1} << 40;

void add_corpus_options(CLI::App& command, CorpusOptions& corpus, int& threads) {
  command.add_option("FILE", corpus.files, "Text or JSON lines (.txt, .jsonl; each also .gz or .zst), in this order")
      ->required();
  command
      .add_option(
          "--documents", corpus.documents,
          "How plain text is cut into documents: file | line | lines:N | blank-line (paragraphs) | start:REGEX (a line "
          "in which REGEX is found begins one)")
      ->capture_default_str();
  command.add_option("--format", corpus.format, "auto (by the file's name) | text | jsonl")->capture_default_str();
  command.add_option("--text-field", corpus.text_field, "Field of a JSON line that holds the text")
      ->capture_default_str();
  command.add_option("--threads", threads, "Threads; 0: the cores this process may use")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
}

void print_split(const Manifest& m, Split split) {
  const SplitRecord& s = m.split(split);
  fmt::print("{:<11} {} documents, {} tokens, {} bytes of text", name_of(split), s.documents, s.tokens, s.text_bytes);
  if (s.tokens > 0)
    fmt::print(", {:.3f} bytes/token", static_cast<double>(s.text_bytes) / static_cast<double>(s.tokens));
  fmt::print(", {} shard{}\n", s.shards.size(), s.shards.size() == 1 ? "" : "s");
}

void print_manifest(const Manifest& m) {
  for (const SourceRecord& source : m.sources) fmt::print("source      {} ({} bytes)\n", source.name, source.bytes);
  fmt::print("documents   by {}; {} empty ones left out\n", m.documents, m.empty_documents);
  fmt::print("tokenizer   {} ids, end of text {}, highest id used {}, hash {}\n", m.vocab_size, m.eot, m.highest_id,
             m.tokenizer.xxh3);
  print_split(m, Split::train);
  print_split(m, Split::validation);
  if (m.validation_split != "none")
    fmt::print(
        "held out    {} of the documents ({}); {} training documents left out because they repeat a held-out one\n",
        m.validation_fraction, m.validation_split, m.duplicate_documents);
}

std::string text_of(const Dataset& dataset, uint64_t document) {
  const auto [begin, end] = dataset.document(document);
  std::vector<int32_t> ids(end - begin);
  dataset.read(begin, ids);
  return dataset.tokenizer().decode(ids);
}

void write_out(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size())
    throw DataError("cannot write to standard output");
}

// First and last characters of a long text, on one line.
std::string excerpt(std::string text) {
  constexpr size_t kHalf = 200;
  if (text.size() > 2 * kHalf) text = text.substr(0, kHalf) + " ... " + text.substr(text.size() - kHalf);
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) text.replace(at, 1, "\\n");
  return text;
}

void add_prepare(CLI::App& data) {
  struct Flags {
    PrepareOptions options;
    int threads = 0;
  };
  auto flags = std::make_shared<Flags>();
  PrepareOptions& o = flags->options;
  CLI::App* command = data.add_subcommand("prepare", "Turn text into a folder of token shards to train on");
  add_corpus_options(*command, o.corpus, flags->threads);
  command
      ->add_option("--tokenizer", o.tokenizer,
                   "bytes, a tokenizer file (tokenizer.json, SentencePiece, tiktoken) or a Hugging Face folder")
      ->required();
  command->add_option("--out", o.out, "Folder to make")->required();
  command->add_option("--validation-fraction", o.validation_fraction, "Share of the documents to hold out; 0: none")
      ->capture_default_str();
  command
      ->add_option("--validation-split", o.validation_split,
                   "last (documents at the end) | hash (by the hash of the text)")
      ->capture_default_str();
  command->add_option("--shard-tokens", o.shard_tokens, "Tokens in a shard file")
      ->check(CLI::Range(uint64_t{1}, kLarge))
      ->capture_default_str();
  command->add_flag(
      "--parse-special", o.parse_special,
      "Special tokens written out in the text, such as <|endoftext|>, become their ids instead of staying text");
  command->add_flag("--overwrite", o.overwrite, "Replace a folder made by an earlier `data prepare`");
  command->callback([flags] {
    set_threads(flags->threads);
    print_manifest(prepare(flags->options));
  });
}

void add_train_tokenizer(CLI::App& data) {
  struct Flags {
    TrainTokenizerOptions options;
    fs::path out;
    bool overwrite = false;
    int threads = 0;
  };
  auto flags = std::make_shared<Flags>();
  TrainTokenizerOptions& o = flags->options;
  CLI::App* command = data.add_subcommand("train-tokenizer", "Learn a byte-level BPE vocabulary from text");
  add_corpus_options(*command, o.corpus, flags->threads);
  command->add_option("--vocab", o.vocab_size, "Vocabulary size: 256 bytes, the merges and <|endoftext|>")->required();
  command->add_option("--min-frequency", o.min_frequency, "Pairs seen less often are not merged")
      ->capture_default_str();
  command->add_option("--out", flags->out, "The tokenizer.json to write")->required();
  command->add_flag("--overwrite", flags->overwrite, "Replace the file if it exists");
  command->callback([flags] {
    set_threads(flags->threads);
    if (fs::exists(flags->out) && !flags->overwrite)
      throw ConfigError(
          fmt::format("--out {}: exists already; choose another name or say --overwrite", flags->out.string()));
    const std::string json = train_tokenizer(flags->options);
    write_file_atomically(flags->out, json);
    fmt::print("{}: {} tokens\n", flags->out.string(), flags->options.vocab_size);
  });
}

void inspect(const fs::path& folder, uint64_t documents) {
  const Manifest manifest = read_manifest(folder);
  print_manifest(manifest);
  for (const Split split : {Split::train, Split::validation}) {
    const Dataset dataset(folder, split);
    for (uint64_t i = 0; i < std::min(documents, dataset.documents()); ++i)
      fmt::print("{}[{}]: {}\n", name_of(split), i, excerpt(text_of(dataset, i)));
  }
  fmt::print("all files match their hashes\n");
}

void add_inspect(CLI::App& data) {
  struct Flags {
    fs::path folder;
    uint64_t documents = 3;
    std::string dump;
    bool json = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = data.add_subcommand("inspect", "Show and verify a prepared folder");
  command->add_option("DIR", flags->folder, "Folder made by `data prepare`")->required();
  command->add_option("--show", flags->documents, "Documents of each split to show")
      ->check(CLI::Range(uint64_t{0}, kLarge))
      ->capture_default_str();
  auto* dump = command->add_option("--dump", flags->dump, "Write all text of a split, a line end after each document")
                   ->check(CLI::IsMember({"train", "validation"}));
  command->add_flag("--json", flags->json, "Print the manifest as JSON, after verifying")->excludes(dump);
  command->callback([flags] {
    if (!flags->dump.empty()) {
      const Dataset dataset(flags->folder, flags->dump == "train" ? Split::train : Split::validation);
      for (uint64_t i = 0; i < dataset.documents(); ++i) write_out(text_of(dataset, i) + "\n");
    } else if (flags->json) {
      for (const Split split : {Split::train, Split::validation}) Dataset(flags->folder, split);
      write_out(serialize(read_manifest(flags->folder)));
    } else {
      inspect(flags->folder, flags->documents);
    }
  });
}

}  // namespace

void add_data_command(CLI::App& app, CommandResult&) {
  CLI::App* data = app.add_subcommand("data", "Prepare text for training");
  data->require_subcommand(1);
  add_prepare(*data);
  add_train_tokenizer(*data);
  add_inspect(*data);
  add_tokenize_commands(*data);
}

}  // namespace fp
