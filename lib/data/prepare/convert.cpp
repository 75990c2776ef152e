#include "data/prepare/convert.h"

#include <vector>

#include "base/error.h"
#include "base/task_progress.h"
#include "data/prepare/dataset_writer.h"

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

// Throws ConfigError if a file or folder that is written belongs to the source.
void require_other_than_source(const ConvertOptions& options) {
  const bool is_megatron = options.to == "megatron";
  for (const char* of_source : {"", ".bin", ".idx"})
    for (const char* written : {is_megatron ? ".bin" : "", is_megatron ? ".idx" : ""}) {
      const fs::path from = options.source.path + of_source, to = options.out.string() + written;
      if (std::error_code unknown; fs::equivalent(from, to, unknown))
        throw ConfigError(fmt::format("--out {}: {} belongs to the dataset to convert; choose another name",
                                      options.out.string(), to.string()));
    }
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

fs::path check_prepared_target(const fs::path& out, bool overwrite) {
  ConvertOptions options;
  options.to = "prepared";
  options.out = absolute_target(out);
  options.overwrite = overwrite;
  check_target(options);
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
