// fptrain data inspect: shows and verifies a dataset of any format.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/shown.h"
#include "cmd_data.h"
#include "commands.h"

namespace fp {
namespace {

constexpr Split kSplits[] = {Split::train, Split::validation};

void print_split(const Manifest& m, Split split) {
  const SplitRecord& s = m.split(split);
  fmt::print("{:<11} {} documents, {} tokens, {} bytes of text", name_of(split), s.documents, s.tokens, s.text_bytes);
  if (s.tokens > 0)
    fmt::print(", {:.3f} bytes/token", static_cast<double>(s.text_bytes) / static_cast<double>(s.tokens));
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

// Returns the first and last characters of a long text on one line.
std::string excerpt(std::string text) {
  constexpr size_t kHalf = 200;
  if (text.size() > 2 * kHalf) text = text.substr(0, kHalf) + " ... " + text.substr(text.size() - kHalf);
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) text.replace(at, 1, "\\n");
  return text;
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
  uint64_t documents = 3;
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
    for (uint64_t i = 0; splits[s] && i < std::min(flags.documents, splits[s]->documents()); ++i)
      fmt::print("{}[{}]: {}\n", name_of(kSplits[s]), i, printable(excerpt(text_of(*splits[s], i))));
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
  for (const SourceRecord& source : m.sources)
    fmt::print("source      {} ({} bytes)\n", printable(source.name), source.bytes);
  if (m.kind != DataKind::text)
    fmt::print("kind        {}, by the template {}\n", name_of(m.kind), shown(m.chat_template));
  fmt::print("documents   by {}; {} empty ones left out\n", printable(m.documents), m.empty_documents);
  fmt::print("tokenizer   {} ids, end of text {}, highest id used {}, hash {}\n", m.vocab_size, m.eot, m.highest_id,
             shown(m.tokenizer.xxh3));
  print_split(m, Split::train);
  print_split(m, Split::validation);
  if (m.validation_split != "none")
    fmt::print(
        "held out    {} of the documents ({}); {} training documents left out because they repeat a held-out one\n",
        m.validation_fraction, shown(m.validation_split), m.duplicate_documents);
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
                     "bytes, or a tokenizer file, for formats that do not contain one");
}

void add_data_inspect(cli::App& data) {
  auto flags = std::make_shared<Flags>();
  cli::App* command = data.add_subcommand("inspect", "Show and verify a dataset");
  add_dataset_options(*command, flags->dataset);
  command->add_option("--show", flags->documents, "Number of documents of each split to show")
      ->check(cli::Range(uint64_t{0}, uint64_t{1} << 40))
      ->capture_default_str();
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
