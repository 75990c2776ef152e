// fptrain config show|check|schema|docs|presets
#include <cstdio>

#include "base/shown.h"
#include "commands.h"
#include "config/fields/reference.h"
#include "config/load.h"
#include "config/model_facts.h"
#include "config/preset.h"
#include "data/sampling/epochs.h"
#include "io/filesystem.h"
#include "io/writable_folder.h"
#include "planning.h"
#include "sharding/arrange.h"
#include "sharding/pipeline_plan.h"

namespace fp {

namespace {

constexpr int64_t kBytes = 256;  // a vocabulary in place of one that is not known

struct ConfigArguments {
  std::string file, output, key;
  std::vector<std::string> sets;
  bool cluster = false, mapping = false;
};

// Returns digits in groups of three: 68,976,648,192.
std::string grouped(int64_t n) {
  std::string s = std::to_string(n);
  for (size_t i = s.size(); i > 3; i -= 3) s.insert(i - 3, ",");
  return s;
}

RunSpec read_spec(const ConfigArguments& a) {
  if (!a.file.empty()) return load_run_spec(a.file, a.sets);
  if (a.sets.empty())
    throw ConfigError("give a run spec, or at least one --set such as --set model.preset=llama-2-70b");
  return parse_run_spec("{}", "defaults", a.sets, DataFolders::must_exist);
}

// Returns a YAML comment with the length of the run; empty for a spec that names no data.
std::string length(const RunSpec& spec) {
  return spec.data.train.empty() ? "" : fmt::format("# {}\n", printable(describe_length(spec)));
}

// Returns YAML comments with the size of the model, the FLOPs per token and the length of the run.
std::string facts(const RunSpec& spec) {
  const ModelSection& m = spec.model;
  if (m.vocab == 0)
    return fmt::format("# {} parameters besides the embeddings: the vocabulary comes from the tokenizer of the data\n",
                       grouped(parameter_count(m, 0))) +
           length(spec);
  std::string text = fmt::format("# {} parameters", grouped(parameter_count(m)));
  if (padded_vocab(m) != m.vocab)
    text += fmt::format(", {} with the vocabulary padded to {}", grouped(parameter_count(m, padded_vocab(m))),
                        padded_vocab(m));
  text += fmt::format("\n# {:.5g} FLOPs per token, forward and backward, at {} tokens per sample\n",
                      model_flops_per_token(m, spec.data.seq_len), spec.data.seq_len);
  return text + length(spec);
}

// Checks what needs neither data nor ranks: the names of files, and the degrees against the model, if both are written.
void check_plan(RunSpec spec) {
  cluster_for(spec);
  if (!spec.parallel.open.empty() || !spec.model.init_from.empty()) return;
  check_heads(spec);
  if (spec.model.vocab == 0) spec.model.vocab = kBytes;
  plan_pipeline(spec);
}

void write_text(const ConfigArguments& a, const std::string& text) {
  if (a.output.empty())
    std::fputs(text.c_str(), stdout);
  else
    output_file(a.output, "--out", text);
}

void list_presets() {
  for (const std::string& name : preset_names()) {
    // Some presets are incomplete by themselves (phi-3-medium-128k lacks factors), so only the model section is loaded.
    const ModelSection m = load_preset(name);
    const std::string size =
        m.vocab > 0 ? grouped(parameter_count(m)) : grouped(parameter_count(m, 0)) + " without embeddings";
    std::printf("%-20s %s\n", name.c_str(), size.c_str());
  }
}

void add_spec_options(cli::App* command, const std::shared_ptr<ConfigArguments>& a) {
  command->add_option("RUN.yaml", a->file, "run spec (YAML)");
  command->add_option("--set", a->sets, "section.key=value, over the file; repeatable")
      ->take_all()
      ->allow_extra_args(false);
}

}  // namespace

void add_config_command(cli::App& app, CommandResult&) {
  const auto a = std::make_shared<ConfigArguments>();
  cli::App* config = app.add_subcommand("config", "Show, check and explain run specs");
  config->require_subcommand(1);

  cli::App* show =
      config->add_subcommand("show", "Print the spec with every value that will be used, and the model's size");
  add_spec_options(show, a);
  show->callback([a] {
    const RunSpec spec = with_steps_of_data(read_spec(*a));
    std::fputs((facts(spec) + dump(spec)).c_str(), stdout);
  });

  cli::App* check =
      config->add_subcommand("check",
                             "Print OK, or all mistakes of the spec, including missing datasets (exit "
                             "code 2); `plan` also checks the ranks, and `train` the content of the data");
  add_spec_options(check, a);
  check->callback([a] {
    check_plan(with_steps_of_data(read_spec(*a)));
    std::printf("%s: OK\n", a->file.empty() ? "spec" : a->file.c_str());
  });

  cli::App* schema = config->add_subcommand("schema", "Print the JSON Schema of run specs, for editors");
  schema->add_option("--out", a->output, "write to this file instead");
  schema->callback([a] { write_text(*a, run_spec_schema()); });

  cli::App* docs =
      config->add_subcommand("docs", "Explain a key or section, or print the reference of all (docs/run-spec.md)");
  docs->add_option("key", a->key, "a key such as optimizer.lr, or a section such as optimizer");
  docs->add_option("--out", a->output, "write to this file instead");
  docs->add_flag("--cluster", a->cluster, "print the reference of cluster descriptions (docs/cluster-spec.md)")
      ->excludes("key");
  docs->add_flag("--mapping", a->mapping, "print the reference of mapping files (docs/mapping-files.md)")
      ->excludes("key")
      ->excludes("--cluster");
  docs->callback([a] {
    write_text(*a, a->cluster       ? cluster_reference()
                   : a->mapping     ? mapping_reference()
                   : a->key.empty() ? run_spec_reference()
                                    : explain_key(a->key));
  });

  config->add_subcommand("presets", "List the model presets and their sizes")->callback(list_presets);
}

}  // namespace fp
