// fptrain data tokenize | detokenize | add-tokens
#include <bit>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/shown.h"
#include "cmd_data.h"
#include "commands.h"
#include "data/tokenizer/tokenizer.h"
#include "io/filesystem.h"
#include "io/writable_folder.h"

namespace fp {
namespace {

namespace fs = std::filesystem;
static_assert(std::endian::native == std::endian::little, "id files are little endian");

struct TokenizeFlags {
  std::string tokenizer;
  fs::path file, out;
  bool parse_special = false, add_special = false;
};

void tokenize(const TokenizeFlags& flags) {
  std::error_code ignored;
  if (!flags.out.empty() && fs::equivalent(flags.out, flags.file, ignored))
    throw ConfigError(fmt::format("--out {}: is the text itself; legal: another file", flags.out.string()));
  const auto tokenizer = load_tokenizer(flags.tokenizer);
  const MappedFile text(flags.file);
  std::vector<int32_t> ids;
  const auto add = [&](std::span<const int32_t> more) {
    if (flags.add_special) ids.insert(ids.end(), more.begin(), more.end());
  };
  add(tokenizer->prefix_ids());
  tokenizer->make_encoder(flags.parse_special ? SpecialText::as_token : SpecialText::as_text)
      ->append({reinterpret_cast<const char*>(text.data()), text.size()}, ids);
  add(tokenizer->suffix_ids());
  if (!flags.out.empty())
    return output_file(flags.out, "--out", {reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int32_t)});
  std::string lines;
  for (const int32_t id : ids) fmt::format_to(std::back_inserter(lines), "{}\n", id);
  write_out(lines);
}

void detokenize(const std::string& name, const fs::path& file) {
  const auto tokenizer = load_tokenizer(name);
  const MappedFile mapped(file);
  if (mapped.size() % sizeof(int32_t) != 0)
    throw DataError(fmt::format("{}: {} bytes; legal: a multiple of 4 (u32 ids)", file.string(), mapped.size()));
  const std::span<const int32_t> ids = mapped.as<int32_t>();
  for (size_t i = 0; i < ids.size(); ++i)
    if (!tokenizer->is_id(ids[i]))
      throw DataError(fmt::format("{}: id {} at byte {} is not in the vocabulary of {} ids", file.string(),
                                  static_cast<uint32_t>(ids[i]), i * sizeof(int32_t), tokenizer->vocab_size()));
  write_out(tokenizer->decode(ids));
}

void add_tokens(const std::string& name, const std::vector<std::string>& special, const fs::path& out, bool overwrite) {
  if (fs::exists(out) && !overwrite)
    throw ConfigError(fmt::format("--out {}: exists already; choose another name or pass --overwrite", out.string()));
  const auto tokenizer = load_tokenizer(name), extended = with_special_tokens(*tokenizer, special);
  extended->save(out);
  for (int32_t id = tokenizer->vocab_size(); id < extended->vocab_size(); ++id)
    fmt::print("{:>8}  {}\n", id, shown(extended->special_text(id)));
  fmt::print("{}: {} tokens\n", out.string(), extended->vocab_size());
}

}  // namespace

void add_tokenize_commands(cli::App& data) {
  constexpr const char* kTokenizer =
      "bytes, a tokenizer file (tokenizer.json, SentencePiece, tiktoken) or a Hugging Face folder";
  auto flags = std::make_shared<TokenizeFlags>();
  cli::App* command = data.add_subcommand("tokenize", "Print the token ids of a file, one per line");
  command->add_option("FILE", flags->file, "Text file, encoded as one text")->required();
  command->add_option("--tokenizer", flags->tokenizer, kTokenizer)->required();
  command->add_flag("--parse-special", flags->parse_special,
                    "Encode added tokens written in the text as their ids instead of as text");
  command->add_flag("--add-special", flags->add_special,
                    "Add the tokens that the tokenizer puts around a text, such as begin-of-text");
  command->add_option("--out", flags->out, "Write the ids to this file as 32-bit little-endian numbers instead");
  command->callback([flags] { tokenize(*flags); });

  struct Reverse {
    std::string tokenizer;
    fs::path file;
  };
  auto reverse = std::make_shared<Reverse>();
  command = data.add_subcommand("detokenize", "Print the text of token ids");
  command->add_option("FILE", reverse->file, "32-bit little-endian ids, as `data tokenize --out` writes")->required();
  command->add_option("--tokenizer", reverse->tokenizer, kTokenizer)->required();
  command->callback([reverse] { detokenize(reverse->tokenizer, reverse->file); });

  struct Extension {
    std::string tokenizer;
    std::vector<std::string> special;
    fs::path out;
    bool overwrite = false;
  };
  auto extension = std::make_shared<Extension>();
  command = data.add_subcommand("add-tokens", "Add special tokens to a tokenizer, behind its other ids");
  command->add_option("--tokenizer", extension->tokenizer, kTokenizer)->required();
  command->add_option("--special", extension->special, "A special token, such as <|im_start|>; repeatable")
      ->required()
      ->take_all()
      ->allow_extra_args(false);
  command
      ->add_option("--out", extension->out,
                   "The tokenizer file to write: a tokenizer.json, or fptrain's own format where none can hold it")
      ->required();
  command->add_flag("--overwrite", extension->overwrite, "Replace the file if it exists");
  command->callback(
      [extension] { add_tokens(extension->tokenizer, extension->special, extension->out, extension->overwrite); });
}

}  // namespace fp
