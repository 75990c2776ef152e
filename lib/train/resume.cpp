#include "train/resume.h"

#include "base/log.h"
#include "checkpoint/folder.h"
#include "config/load.h"
#include "interop/weight_source.h"
#include "train/changed_settings.h"

namespace fp {
namespace {

constexpr auto kVerify = Checkpoint::Verify::all_but_tensors;

// Like find_latest(), but the error for a checkpoint of a newer program says what can be done: resuming from an older
// one unasked would make two histories of one run.
std::optional<Checkpoint> latest_in(const std::filesystem::path& checkpoints_dir, const ParamTable& table,
                                    std::set<std::filesystem::path> skip, DamagedCheckpoints& damaged) {
  std::string refusal;
  for (;;) {
    try {
      const auto latest = find_latest(checkpoints_dir, &table, kVerify, skip, &damaged);
      if (refusal.empty()) return latest;
      throw ConfigError(
          latest ? fmt::format("{}; or resume from an older one in another folder, with --resume {} and --set "
                               "run.directory=ANOTHER",
                               refusal, latest->folder().string())
                 : refusal);
    } catch (const NewerFormatError& e) {
      if (refusal.empty()) refusal = e.what();
      skip.insert(e.folder);
    }
  }
}

}  // namespace

std::optional<Checkpoint> checkpoint_to_resume(const std::string& resume, const std::filesystem::path& checkpoints_dir,
                                               const ParamTable& table, const std::set<std::filesystem::path>& skip,
                                               DamagedCheckpoints& damaged) {
  if (resume == "auto") {
    auto latest = latest_in(checkpoints_dir, table, skip, damaged);
    if (!latest && (!skip.empty() || !checkpoints_in(checkpoints_dir).empty()))
      throw DataError(
          fmt::format("{}: none of the checkpoints here can be resumed (see the warnings above); choose another "
                      "run.directory to start over, or move this folder away",
                      checkpoints_dir.string()));
    return latest;
  }
  if (resume != "none") {
    if (std::error_code ignored; std::filesystem::is_directory(std::filesystem::path(resume) / "checkpoints", ignored))
      throw DataError(
          fmt::format("--resume {}: a run directory; name one of the checkpoints in {}/checkpoints, or resume "
                      "it with run.directory={} and --resume auto",
                      resume, resume, resume));
    if (std::error_code ignored; !std::filesystem::is_directory(resume, ignored))
      throw DataError(fmt::format("--resume {}: no such folder{}", resume, checkpoints_nearby(resume)));
    if (is_foreign_model(resume))
      throw ConfigError(
          fmt::format("--resume {}: a Hugging Face folder, not a checkpoint; to train from its weights, set "
                      "model.init_from={}",
                      resume, resume));
    Checkpoint chosen = Checkpoint::open(resume, kVerify);
    const auto there = checkpoints_in(checkpoints_dir);
    std::error_code unknown;
    const std::filesystem::path real = std::filesystem::weakly_canonical(chosen.folder(), unknown);
    if (!there.empty() && !lies_in(unknown ? chosen.folder() : real, checkpoints_dir))
      throw ConfigError(fmt::format(
          "--resume {}: {} already holds other checkpoints, up to {}, which this run would not continue and "
          "would delete in time; choose another run.directory, or move them away",
          resume, checkpoints_dir.string(), there.front().filename().string()));
    if (there.empty() || *checkpoint_step(there.front().filename().string()) <= chosen.manifest().step) return chosen;
    throw ConfigError(
        fmt::format("--resume {}: {} holds newer checkpoints, up to {}: resuming from step {} would make two histories "
                    "of one run; resume with --resume auto, choose another run.directory, or move the newer ones away",
                    resume, checkpoints_dir.string(), there.front().filename().string(), chosen.manifest().step));
  }
  if (!checkpoints_in(checkpoints_dir).empty())
    throw ConfigError(
        fmt::format("--resume none: {} already holds checkpoints, which a fresh run would overwrite; choose another "
                    "run.directory, remove that folder, or resume with --resume auto",
                    checkpoints_dir.string()));
  return std::nullopt;
}

namespace {

// Returns how the run spec of a checkpoint describes another model than `model`; empty for a checkpoint of this model,
// nullopt for one that cannot be compared.
std::optional<std::string> other_model(const std::filesystem::path& folder, const ParamTable& table,
                                       const ModelSection& model) {
  try {
    const Checkpoint checkpoint = Checkpoint::open(folder, Checkpoint::Verify::manifest);
    if (checkpoint.mismatches(table).empty()) return "";
    const RunSpec spec = parse_stored_spec(checkpoint.state().config_yaml, CheckpointManifest::kConfigName);
    if (std::string changes = model_changes(model, spec.model); !changes.empty()) return changes;
  } catch (const UserError&) {  // checkpoint_to_resume() reports it
  }
  return std::nullopt;
}

}  // namespace

void require_model_of_checkpoints(const std::string& resume, const std::filesystem::path& checkpoints_dir,
                                  const ParamTable& table, const ModelSection& model) {
  if (resume == "none") return;
  const std::vector<std::filesystem::path> all =
      resume == "auto" ? checkpoints_in(checkpoints_dir) : std::vector<std::filesystem::path>{resume};
  std::string refusal;
  for (const std::filesystem::path& folder : all) {
    const auto changes = other_model(folder, table, model);
    if (!changes || changes->empty()) return;
    if (refusal.empty())
      refusal = fmt::format(
          "{} holds another model than the run spec describes: {}; restore these keys, or choose "
          "another run.directory",
          folder.string(), *changes);
  }
  if (!refusal.empty()) throw ConfigError(refusal);
}

nlohmann::json data_identity(const RunSpec& spec, const Sampler& sampler) {
  nlohmann::json datasets = nlohmann::json::array();
  for (size_t i = 0; i < sampler.datasets().size(); ++i)
    datasets.push_back({{"manifest", sampler.datasets()[i]->identity()}, {"weight", spec.data.train[i].weight}});
  nlohmann::json identity = {{"data.train", datasets},
                             {"run.seed", spec.run.seed},
                             {"data.seq_len", spec.data.seq_len},
                             {"data.shuffle", spec.data.shuffle},
                             {"data.mask_documents", spec.data.mask_documents},
                             {"data.reset_positions", spec.data.reset_positions},
                             {"tokenizer", sampler.tokenizer().hash()}};
  // Absent for packed samples, as in older checkpoints, which had no other kind.
  if (spec.data.sampling != Sampling::packed)
    identity.update(
        {{"data.sampling", name_of(spec.data.sampling)}, {"data.long_documents", name_of(spec.data.long_documents)}});
  return identity;
}

std::string data_differences(const nlohmann::json& saved, const nlohmann::json& now) {
  std::string text;
  const auto shown = [](const nlohmann::json& identity, const std::string& key) {
    return identity.contains(key) ? identity[key].dump() : "absent";
  };
  nlohmann::json all = saved.is_object() ? saved : nlohmann::json::object();
  all.update(now);
  for (const auto& [key, ignored] : all.items())
    if (shown(saved, key) != shown(now, key))
      text += fmt::format("\n  {}: {} in the checkpoint, {} now", key, shown(saved, key), shown(now, key));
  return text;
}

}  // namespace fp
