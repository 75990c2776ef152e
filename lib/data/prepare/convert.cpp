#include "data/prepare/convert.h"

#include <vector>

#include "base/error.h"
#include "base/task_progress.h"
#include "data/formats/megatron.h"
#include "data/prepare/dataset_writer.h"
#include "io/filesystem.h"

namespace fp {
namespace {

namespace fs = std::filesystem;

void check_target(const ConvertOptions& options) {
  const auto refuse = [&](const fs::path& path) {
    throw ConfigError(fmt::format("--out {}: exists already; choose another name or pass --overwrite", path.string()));
  };
  if (options.out.empty()) throw ConfigError("--out is required: the path to write");
  if (options.to == "megatron") {
    for (const char* ending : {".bin", ".idx"})
      if (const fs::path path = fs::path(options.out) += ending; fs::exists(path) && !options.overwrite) refuse(path);
    return;
  }
  if (!fs::exists(options.out)) return;
  if (!options.overwrite) refuse(options.out);
  // --overwrite replaces only something of the kind that is written, so that an unrelated folder is never removed.
  if (options.to == "prepared" ? !fs::exists(options.out / Manifest::kFileName) : !fs::is_regular_file(options.out))
    throw ConfigError(fmt::format("--out {}: --overwrite replaces only a {}", options.out.string(),
                                  options.to == "prepared" ? "prepared folder" : "file"));
}

fs::path absolute_target(const fs::path& out) {
  const fs::path target = fs::absolute(out).lexically_normal();
  return target.has_filename() ? target : target.parent_path();
}

// Returns what a dataset is read from: its folder, or all of its files.
std::vector<fs::path> parts_of(const DatasetSource& source) {
  std::vector<fs::path> parts = matching_files(source.path);
  if (source.format == "megatron" || (source.format == "auto" && is_megatron(source.path)))
    for (const char* ending : {".bin", ".idx"}) parts.push_back(with_ending(megatron_prefix(source.path), ending));
  return parts;
}

// Returns whether a path, which need not exist, is `other` or lies in it.
bool is_within(const fs::path& path, const fs::path& other) {
  std::error_code unknown;
  for (fs::path at = fs::weakly_canonical(path, unknown); !at.empty(); at = at.parent_path()) {
    if (fs::equivalent(at, other, unknown)) return true;
    if (at == at.parent_path()) break;
  }
  return false;
}

void require_other_than_source(const ConvertOptions& options) {
  std::vector<fs::path> written = {options.out};
  if (options.to == "megatron") written = {with_ending(options.out, ".bin"), with_ending(options.out, ".idx")};
  for (const fs::path& from : parts_of(options.source))
    for (const fs::path& to : written)
      if (is_within(to, from) || is_within(from, to))
        throw ConfigError(fmt::format("--out {}: {} belongs to the dataset that is read; choose another name",
                                      options.out.string(), is_within(to, from) ? to.string() : from.string()));
}

std::unique_ptr<DatasetWriter> make_writer(const ConvertOptions& options, const Dataset& source) {
  const Tokenizer& tokenizer = source.tokenizer();
  if (options.to == "megatron") return make_megatron_writer(options.out, tokenizer);
  if (options.to == "llmc") return make_llmc_writer(options.out, tokenizer);
  if (options.to == "nanogpt") return make_nanogpt_writer(options.out, tokenizer);
  if (options.to == "prepared")
    return make_prepared_writer(options.out, tokenizer, fs::path(source.name()).filename().string());
  throw ConfigError(fmt::format("--to {}: legal values: megatron, prepared, llmc, nanogpt", options.to));
}

// Returns a document without the token that separates it from its neighbours.
std::span<const int32_t> body_of(std::span<const int32_t> document, const Dataset& source) {
  if (document.empty()) return document;
  const auto& separator = source.separator();
  if (separator && separator->begins) return document.subspan(document.front() == separator->id ? 1 : 0);
  return document.first(document.size() - (document.back() == source.tokenizer().eot() ? 1 : 0));
}

}  // namespace

fs::path check_prepared_target(const fs::path& out, bool overwrite, const DatasetSource& source) {
  ConvertOptions options;
  options.source = source;
  options.to = "prepared";
  options.out = absolute_target(out);
  options.overwrite = overwrite;
  check_target(options);
  require_other_than_source(options);
  return options.out;
}

ConvertResult convert(const ConvertOptions& given) {
  ConvertOptions options = given;
  options.out = absolute_target(given.out);
  check_target(options);
  require_other_than_source(options);
  const auto source = open_dataset(options.source, options.split);
  if (!source) throw ConfigError(fmt::format("{}: has no validation split", options.source.path));
  if (source->has_loss_mask() || source->documents_per_sample() > 1)
    throw ConfigError(fmt::format("{}: has a loss mask, which {} cannot hold; prepare the conversations again instead",
                                  source->name(),
                                  options.to == "prepared" ? "a converted folder" : "format " + options.to));
  const auto writer = make_writer(options, *source);
  TaskProgress progress("converting");
  std::vector<int32_t> document;
  for (uint64_t d = 0; d < source->documents(); ++d) {
    const auto [begin, end] = source->document(d);
    document.resize(end - begin);
    source->read(begin, document);
    writer->append(document, body_of(document, *source));
    if (d % 1024 == 0) progress.update(end, source->tokens(), "M tokens", 1e6);
  }
  writer->finish();
  return {source->documents(), writer->tokens()};
}

}  // namespace fp
