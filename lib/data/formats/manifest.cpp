#include "data/formats/manifest.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/filesystem.h"
#include "io/json_numbers.h"

namespace fp {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr const char* kFormat = "fptrain-tokens";

OrderedJson to_json(const FileRecord& file) {
  return {{"name", file.name}, {"bytes", file.bytes}, {"xxh3", file.xxh3}};
}

FileRecord file_from(const OrderedJson& json) {
  FileRecord file{json.at("name").get<std::string>(), integer_from<uint64_t>(json.at("bytes"), "bytes"),
                  json.at("xxh3").get<std::string>()};
  if (file.name.empty() || file.name.find('/') != std::string::npos)
    throw std::invalid_argument(fmt::format("\"{}\" is not the name of a file in the folder", file.name));
  return file;
}

OrderedJson to_json(const std::vector<FileRecord>& files) {
  OrderedJson array = OrderedJson::array();
  for (const FileRecord& file : files) array.push_back(to_json(file));
  return array;
}

std::vector<FileRecord> files_from(const OrderedJson& json) {
  std::vector<FileRecord> files;
  for (const OrderedJson& file : json) files.push_back(file_from(file));
  return files;
}

OrderedJson to_json(const SplitRecord& split, const Manifest& m) {
  OrderedJson json = {{"documents", split.documents},
                      {"tokens", split.tokens},
                      {"text_bytes", split.text_bytes},
                      {"index", to_json(split.index)},
                      {"shards", to_json(split.shards)}};
  if (m.kind != DataKind::text) json["loss_masks"] = to_json(split.loss_masks);
  if (m.version() == 3) json["hashes"] = to_json(split.hashes);
  return json;
}

SplitRecord split_from(const OrderedJson& json, DataKind kind, int version) {
  SplitRecord split;
  split.documents = integer_from<uint64_t>(json.at("documents"), "documents");
  split.tokens = integer_from<uint64_t>(json.at("tokens"), "tokens");
  split.text_bytes = integer_from<uint64_t>(json.at("text_bytes"), "text_bytes");
  split.index = file_from(json.at("index"));
  split.shards = files_from(json.at("shards"));
  if (kind != DataKind::text) split.loss_masks = files_from(json.at("loss_masks"));
  if (version == 3) split.hashes = file_from(json.at("hashes"));
  return split;
}

OrderedJson to_json(const Manifest& m) {
  OrderedJson sources = OrderedJson::array();
  for (const SourceRecord& source : m.sources) sources.push_back({{"name", source.name}, {"bytes", source.bytes}});
  OrderedJson json = {{"format", kFormat}, {"version", m.version()}};
  if (m.version() > 1) json["kind"] = name_of(m.kind);
  if (m.kind != DataKind::text) json["chat_template"] = m.chat_template;
  json.update({{"tokenizer", to_json(m.tokenizer)},
               {"vocab_size", m.vocab_size},
               {"eot", m.eot},
               {"highest_id", m.highest_id},
               {"token_bytes", m.token_bytes},
               {"shard_tokens", m.shard_tokens},
               {"documents", m.documents},
               {"validation_split", m.validation_split},
               {"validation_fraction", m.validation_fraction},
               {"empty_documents", m.empty_documents},
               {"duplicate_documents", m.duplicate_documents},
               {"sources", std::move(sources)},
               {"train", to_json(m.train, m)},
               {"validation", to_json(m.validation, m)}});
  return json;
}

DataKind kind_from(const OrderedJson& json) {
  if (json.at("version") == 1) return DataKind::text;
  const auto name = json.at("kind").get<std::string>();
  const bool may_be_text = json.at("version") == 3;
  for (const DataKind kind : {DataKind::text, DataKind::chat, DataKind::preferences})
    if (name == name_of(kind) && (kind != DataKind::text || may_be_text)) return kind;
  throw std::invalid_argument(
      fmt::format("kind \"{}\": legal: {}chat, preferences", name, may_be_text ? "text, " : ""));
}

Manifest manifest_from(const OrderedJson& json) {
  Manifest m;
  m.kind = kind_from(json);
  if (m.kind != DataKind::text) m.chat_template = json.at("chat_template").get<std::string>();
  m.tokenizer = file_from(json.at("tokenizer"));
  m.vocab_size = integer_from<int64_t>(json.at("vocab_size"), "vocab_size");
  m.eot = integer_from<int64_t>(json.at("eot"), "eot");
  m.highest_id = integer_from<int64_t>(json.at("highest_id"), "highest_id");
  m.token_bytes = integer_from<int>(json.at("token_bytes"), "token_bytes");
  m.shard_tokens = integer_from<uint64_t>(json.at("shard_tokens"), "shard_tokens");
  m.documents = json.at("documents").get<std::string>();
  m.validation_split = json.at("validation_split").get<std::string>();
  m.validation_fraction = json.at("validation_fraction").get<double>();
  m.empty_documents = integer_from<uint64_t>(json.at("empty_documents"), "empty_documents");
  m.duplicate_documents = integer_from<uint64_t>(json.at("duplicate_documents"), "duplicate_documents");
  for (const OrderedJson& source : json.at("sources"))
    m.sources.push_back({source.at("name").get<std::string>(), integer_from<uint64_t>(source.at("bytes"), "bytes")});
  const int version = integer_from<int>(json.at("version"), "version");
  m.train = split_from(json.at("train"), m.kind, version);
  m.validation = split_from(json.at("validation"), m.kind, version);
  return m;
}

}  // namespace

Manifest new_manifest(const Tokenizer& tokenizer) {
  Manifest m;
  m.tokenizer = {"tokenizer.json", tokenizer.serialized().size(), tokenizer.hash()};
  m.vocab_size = tokenizer.vocab_size();
  m.eot = tokenizer.eot();
  m.token_bytes = tokenizer.vocab_size() <= 0x10000 ? 2 : 4;
  return m;
}

void write_manifest(const std::filesystem::path& folder, const Tokenizer& tokenizer, const Manifest& manifest) {
  tokenizer.save(folder / manifest.tokenizer.name);
  write_file_atomically(folder / Manifest::kFileName, serialize(manifest));
}

std::string serialize(const Manifest& manifest) {
  OrderedJson json = to_json(manifest);
  // File names need not be UTF-8; ill-formed bytes are written as U+FFFD.
  constexpr auto kReplace = OrderedJson::error_handler_t::replace;
  const std::string content = json.dump(2, ' ', false, kReplace);
  json["xxh3"] = hash_bytes(content.data(), content.size());
  return json.dump(2, ' ', false, kReplace) + "\n";
}

std::string identity_of(Manifest manifest) {
  for (const Split split : {Split::train, Split::validation}) manifest.split(split).hashes = {};
  const std::string text = serialize(manifest);
  return hash_bytes(text.data(), text.size());
}

Manifest read_manifest(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / Manifest::kFileName;
  if (!std::filesystem::exists(path))
    throw DataError(fmt::format("{}: no {} here: not a folder made by `fptrain data prepare`", folder.string(),
                                Manifest::kFileName));
  const std::string text = read_json_file(path);
  const auto fail = [&](const std::string& what) { throw DataError(fmt::format("{}: {}", path.string(), what)); };
  Manifest manifest;
  const OrderedJson json = parse_ordered_json(text, path.string());
  if (!json.is_object() || !json.contains("format"))
    fail("has no \"format\": not the manifest of a folder made by `fptrain data prepare`");
  try {
    if (json.at("format") != kFormat) fail(fmt::format("format is {}, not \"{}\"", json.at("format").dump(), kFormat));
    if (json.at("version") != 1 && json.at("version") != 2 && json.at("version") != 3)
      fail(fmt::format("version {} is not supported, only 1 to 3; prepare the text again", json.at("version").dump()));
    manifest = manifest_from(json);
  } catch (const JsonError& e) {
    fail(fmt::format("damaged or altered: {}; {}", e.what(), kRepairAdvice));
  } catch (const DataError&) {
    throw;
  } catch (const std::bad_alloc&) {  // does not mean that the file is malformed
    throw;
  } catch (const std::exception& e) {
    fail(fmt::format("damaged or altered: {}; {}", e.what(), kRepairAdvice));
  }
  // serialize() determines every byte of the file, its hash included, so any change is detected here.
  if (serialize(manifest) != text)
    fail(fmt::format("damaged or altered: its content does not match its own hash; {}", kRepairAdvice));
  return manifest;
}

}  // namespace fp
