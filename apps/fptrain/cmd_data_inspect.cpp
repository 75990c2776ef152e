// fptrain data inspect: shows and verifies a dataset of any format.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/shown.h"
#include "cmd_data.h"
#include "commands.h"

namespace fp {
namespace {

constexpr Split kSplits[] = {Split::train, Split::validation};

double ratio(uint64_t a, uint64_t b) { return b == 0 ? 0.0 : static_cast<double>(a) / static_cast<double>(b); }

void print_split(const Manifest& m, Split split) {
  const SplitRecord& s = m.split(split);
  fmt::print("{:<11} {} document{}, {} tokens, {} bytes of text", name_of(split), s.documents,
             s.documents == 1 ? "" : "s", s.tokens, s.text_bytes);
  if (s.tokens > 0)
    fmt::print(", {:.3f} bytes/token, {:.0f} tokens/document", ratio(s.text_bytes, s.tokens),
               ratio(s.tokens, s.documents));
  fmt::print(", {} shard{}\n", s.shards.size(), s.shards.size() == 1 ? "" : "s");
}

std::vector<int32_t> ids_of(const Dataset& dataset, uint64_t document) {
  const auto [begin, end] = dataset.document(document);
  std::vector<int32_t> ids(end - begin);
  dataset.read(begin, ids);
  return ids;
}

std::string text_of(const Dataset& dataset, uint64_t document) {
  return dataset.tokenizer().decode(ids_of(dataset, document));
}

// Returns a conversation with its special tokens written out and what is learned in double brackets.
std::string marked_text_of(const Dataset& dataset, uint64_t document) {
  const std::vector<int32_t> ids = ids_of(dataset, document);
  std::vector<int32_t> learned(ids.size());
  dataset.read_loss_mask(dataset.document(document).first, learned);
  std::string text;
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool before = i > 0 && learned[i - 1] != 0, now = learned[i] != 0;
    if (now != before) text += now ? "[[" : "]]";
    const std::string_view special = dataset.tokenizer().special_text(ids[i]);
    if (!special.empty())
      text += special;
    else
      text += ids[i] == dataset.tokenizer().eot() ? "<end of text>" : dataset.tokenizer().bytes_of(ids[i]);
  }
  return !learned.empty() && learned.back() != 0 ? text + "]]" : text;
}

// The lengths of a split of conversations, and how many of its tokens are learned.
struct ChatLengths {
  uint64_t tokens = 0, learned = 0, documents = 0, longest = 0;
};

ChatLengths chat_lengths(const Dataset& dataset) {
  ChatLengths lengths{dataset.tokens(), 0, dataset.documents(), 0};
  std::vector<int32_t> mask;
  for (uint64_t i = 0; i < lengths.documents; ++i) {
    const auto [begin, end] = dataset.document(i);
    mask.resize(end - begin);
    dataset.read_loss_mask(begin, mask);
    lengths.learned += static_cast<uint64_t>(std::count(mask.begin(), mask.end(), 1));
    lengths.longest = std::max(lengths.longest, end - begin);
  }
  return lengths;
}

// Padding is that of data.sampling: documents, whose rows hold one document each: all tokens but the last are inputs.
void print_chat_lengths(const Dataset& dataset, Split split, uint64_t seq_len) {
  const ChatLengths c = chat_lengths(dataset);
  if (c.longest < 2) return;
  fmt::print("{:<11} {:.1f} % of the tokens are learned; the longest conversation has {} tokens\n", name_of(split),
             100.0 * ratio(c.learned, c.tokens), c.longest);
  const uint64_t row = seq_len > 0 ? seq_len : c.longest - 1;
  uint64_t used = 0, longer = 0;
  for (uint64_t i = 0; i < c.documents; ++i) {
    const auto [begin, end] = dataset.document(i);
    used += std::min(row, end - begin - 1);
    longer += end - begin - 1 > row ? 1 : 0;
  }
  fmt::print("{:<11} one conversation per row of {} tokens ({}): {:.1f} % padding, {} longer ones\n", "", row,
             seq_len > 0 ? "--seq-len" : "the longest", 100.0 * (1.0 - ratio(used, row * c.documents)), longer);
}

// Returns the first and last characters of a long text on one line.
std::string excerpt(std::string text) {
  constexpr size_t kHalf = 200;
  if (text.size() > 2 * kHalf) text = text.substr(0, kHalf) + " ... " + text.substr(text.size() - kHalf);
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) text.replace(at, 1, "\\n");
  return text;
}

// Returns an excerpt of a document for the screen. On a terminal, what is learned is green as well as in brackets.
std::string shown_document(const Dataset& dataset, uint64_t document) {
  if (!dataset.has_loss_mask()) return printable(excerpt(text_of(dataset, document)));
  std::string text = printable(excerpt(marked_text_of(dataset, document)));
  if (::isatty(STDOUT_FILENO) != 1) return text;
  for (const auto& [mark, coloured] : {std::pair("[[", "\x1b[32m[["), std::pair("]]", "]]\x1b[0m")})
    for (size_t at = 0; (at = text.find(mark, at)) != std::string::npos; at += std::strlen(coloured))
      text.replace(at, 2, coloured);
  return text + "\x1b[0m";
}

// Reads every token, which also verifies the files, and returns the highest id.
int32_t check_ids(const Dataset& dataset) {
  constexpr uint64_t kBlock = uint64_t{1} << 20;
  std::vector<int32_t> block;
  int32_t highest = -1;
  for (uint64_t begin = 0; begin < dataset.tokens(); begin += kBlock) {
    block.resize(std::min(kBlock, dataset.tokens() - begin));
    dataset.read(begin, block);
    highest = std::max(highest, *std::max_element(block.begin(), block.end()));
  }
  return highest;
}

nlohmann::ordered_json facts_of(const Dataset& dataset) {
  return {{"format", dataset.format()},
          {"documents", dataset.documents()},
          {"tokens", dataset.tokens()},
          {"highest_id", check_ids(dataset)},
          {"tokenizer", {{"ids", dataset.tokenizer().vocab_size()}, {"xxh3", dataset.tokenizer().hash()}}},
          {"identity", dataset.identity()}};
}

struct Flags {
  DatasetArguments dataset;
  uint64_t documents = 3, seq_len = 0;
  std::string dump, dump_ids;
  bool json = false;
};

void print_foreign(const Dataset& dataset, bool json) {
  const auto facts = facts_of(dataset);
  if (json) return write_out(facts.dump(2) + "\n");
  fmt::print("format      {}\ndocuments   {}\ntokens      {}\n", dataset.format(), dataset.documents(),
             dataset.tokens());
  fmt::print("tokenizer   {} ids, end of text {}, highest id used {}, hash {}\n", dataset.tokenizer().vocab_size(),
             dataset.tokenizer().eot(), facts["highest_id"].get<int32_t>(), dataset.tokenizer().hash());
}

void inspect(const Flags& flags) {
  const DatasetSource source = flags.dataset.source();
  std::vector<std::unique_ptr<Dataset>> splits;
  for (const Split split : kSplits) splits.push_back(open_dataset(source, split));
  const bool prepared = splits[1] != nullptr;
  if (prepared && flags.json) return write_out(serialize(read_manifest(source.path)));
  if (prepared) print_manifest(read_manifest(source.path));
  if (!prepared) print_foreign(*splits[0], flags.json);
  if (flags.json) return;
  for (size_t s = 0; s < splits.size(); ++s)
    if (splits[s] && splits[s]->has_loss_mask()) print_chat_lengths(*splits[s], kSplits[s], flags.seq_len);
  for (size_t s = 0; s < splits.size(); ++s)
    for (uint64_t i = 0; splits[s] && i < std::min(flags.documents, splits[s]->documents()); ++i)
      fmt::print("{}[{}]: {}\n", name_of(kSplits[s]), i, shown_document(*splits[s], i));
  fmt::print("{}\n", prepared ? "all files match their hashes" : "all ids are in the tokenizer's vocabulary");
}

void dump(const Flags& flags, const std::string& name, bool ids) {
  const auto dataset =
      open_dataset(flags.dataset.source(), name == name_of(Split::train) ? Split::train : Split::validation);
  if (!dataset) throw ConfigError(fmt::format("{}: has no validation split; legal: train", flags.dataset.path));
  for (uint64_t i = 0; i < dataset->documents(); ++i)
    write_out(ids ? fmt::format("{}\n", fmt::join(ids_of(*dataset, i), " ")) : text_of(*dataset, i) + "\n");
}

}  // namespace

void write_out(const std::string& given) {
  const std::string text = for_stdout(given);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size())
    throw DataError("cannot write to standard output");
}

void print_manifest(const Manifest& m) {
  constexpr size_t kMostSources = 10;
  if (m.duplicate_documents > 0)
    fmt::print("left out    {} training document{} with the text of a held-out one (--drop-repeats)\n",
               m.duplicate_documents, m.duplicate_documents == 1 ? "" : "s");
  if (m.empty_documents > 0)
    fmt::print("left out    {} empty document{}\n", m.empty_documents, m.empty_documents == 1 ? "" : "s");
  for (size_t i = 0; i < std::min(m.sources.size(), kMostSources); ++i)
    fmt::print("source      {} ({} bytes)\n", printable(m.sources[i].name), m.sources[i].bytes);
  if (m.sources.size() > kMostSources) fmt::print("source      ... and {} more\n", m.sources.size() - kMostSources);
  if (m.kind != DataKind::text)
    fmt::print("kind        {}, by the template {}\n", name_of(m.kind), shown(m.chat_template));
  if (m.documents == Manifest::kJsonLines || m.kind != DataKind::text)
    fmt::print("documents   one for each JSON line{}\n", m.kind == DataKind::preferences ? " and answer" : "");
  else
    fmt::print("documents   {}\n", m.documents.starts_with("as in ")
                                       ? printable(m.documents)
                                       : fmt::format("by {} (--documents)", printable(m.documents)));
  fmt::print("tokenizer   {} ids, end of text {}, highest id used {}, hash {}\n", m.vocab_size, m.eot, m.highest_id,
             shown(m.tokenizer.xxh3));
  print_split(m, Split::train);
  print_split(m, Split::validation);
  if (m.validation_split != "none")
    fmt::print("held out    {} of {} documents ({}), {:.1f} % of the tokens\n", m.validation.documents,
               m.train.documents + m.validation.documents,
               m.validation_split == "last" ? "the last ones" : "by the hash of their text",
               100.0 * ratio(m.validation.tokens, m.train.tokens + m.validation.tokens));
}

DatasetSource DatasetArguments::source() const {
  DatasetSource source{path, format, nullptr};
  if (!tokenizer.empty()) source.tokenizer = load_tokenizer(tokenizer);
  return source;
}

void add_dataset_options(cli::App& command, DatasetArguments& arguments) {
  command
      .add_option("DATASET", arguments.path,
                  "Folder made by `data prepare`; Megatron prefix, .bin or .idx; llm.c or nanoGPT file or pattern")
      ->required();
  command
      .add_option("--format", arguments.format,
                  "Format of the dataset; auto: detected from its content (not possible for nanogpt)")
      ->check(cli::IsMember({"auto", "prepared", "megatron", "llmc", "nanogpt"}))
      ->capture_default_str();
  command.add_option("--tokenizer", arguments.tokenizer,
                     "bytes, a tokenizer file or a Hugging Face folder, for formats that do not contain a tokenizer");
}

void add_data_inspect(cli::App& data) {
  auto flags = std::make_shared<Flags>();
  cli::App* command = data.add_subcommand("inspect", "Show and verify a dataset");
  add_dataset_options(*command, flags->dataset);
  command->add_option("--show", flags->documents, "Number of documents of each split to show")
      ->check(cli::Range(uint64_t{0}, uint64_t{1} << 40))
      ->capture_default_str();
  command
      ->add_option("--seq-len", flags->seq_len,
                   "Conversations: tokens per row, to show how much would be padding; 0: those of the longest one")
      ->check(cli::Range(uint64_t{0}, uint64_t{1} << 40));
  auto* text =
      command->add_option("--dump", flags->dump, "Write all text of a split, with a line end after each document")
          ->check(cli::IsMember({"train", "validation"}));
  auto* ids = command->add_option("--dump-ids", flags->dump_ids, "Write all ids of a split, one document per line")
                  ->check(cli::IsMember({"train", "validation"}))
                  ->excludes(text);
  command->add_flag("--json", flags->json, "Print the facts as JSON, after verifying")->excludes(text)->excludes(ids);
  command->callback([flags] {
    if (!flags->dump.empty()) return dump(*flags, flags->dump, false);
    if (!flags->dump_ids.empty()) return dump(*flags, flags->dump_ids, true);
    inspect(*flags);
  });
}

}  // namespace fp
