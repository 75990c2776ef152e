#include <regex>
#include <set>
#include <thread>

#include "base/log.h"
#include "base/stopwatch.h"
#include "bench/op_timer.h"
#include "checkpoint/folder.h"
#include "config/load.h"
#include "config/model_facts.h"
#include "data/sampling/epochs.h"
#include "dryrun/setup.h"
#include "exec/replicas.h"
#include "interop/weight_source.h"
#include "io/filesystem.h"
#include "io/log_file.h"
#include "io/storage.h"
#include "launch/fault.h"
#include "sharding/arrange.h"
#include "train/agreement.h"
#include "train/changed_settings.h"
#include "train/coordination.h"
#include "train/permissions.h"
#include "train/restarts.h"
#include "train/resume.h"
#include "train/trainer_internal.h"

namespace fp {
namespace {

// Removes temporary files that killed processes left (write_file_atomically). Files newer than this start stay:
// `fptrain report` may be writing them, without the folder's lease.
void remove_temporaries(const std::filesystem::path& folder, std::filesystem::file_time_type start) {
  static const std::regex pattern(
      R"((config\.yaml|plan\.(txt|json)|(memory|restarts)\.json|report\.(json|html)|reference-scores.*\.bin)\.tmp\.[0-9a-f]+)");
  for (const std::filesystem::path& file : storage::entries_of(folder)) {
    std::error_code error;
    if (!std::regex_match(file.filename().string(), pattern)) continue;
    if (const auto written = std::filesystem::last_write_time(file, error); !error && written < start)
      std::filesystem::remove(file, error);
  }
}

constexpr const char* kReference = "dpo_reference";  // in a checkpoint: the identity of the reference model

}  // namespace

Trainer::Trainer(const TrainRequest& request, Ops& ops, CountingOps& counting, World& world, const Mesh& mesh)
    : request_(request),
      spec_(request_.spec),
      ops_(ops),
      groups_(make_groups(world, mesh)),
      directory_(spec_.run.directory),
      checkpoints_(directory_ / "checkpoints"),
      data_(spec_, *groups_.world),
      section_(with_vocab(spec_.model, data_.train().tokenizer().vocab_size())) {
  require_same_facts(*groups_.world, facts_of(spec_, data_, mesh));
  data_.check_vocab(section_.vocab);
  check_sample_prompt();
  RunSpec resolved = spec_;
  resolved.model = section_;
  pipeline_ = plan_pipeline(resolved);
  prediction_ = dry_run(spec_, section_, counting, mesh, world.rank());
  require_fit_on_all_ranks(prediction_, spec_.memory, ops_, *groups_.world, request_.advice);
  if (std::string text = differing_attention(prediction_, groups_.at.pp, *groups_.world); !text.empty())
    setup_events_.push_back({std::move(text)});
  flops_per_token_ = model_flops_per_token(section_, spec_.data.seq_len);
  shutdown_time_.emplace(
      static_cast<double>(prediction_.parameters) * checkpoint_bytes_per_parameter(spec_, section_, mesh), world.size(),
      request_.save_bytes_per_s);
  prepare_directory();
  start_or_resume();
}

void Trainer::prepare_directory() {
  enter("set-up");
  if (const auto pause = slow_disk(); pause.count() > 0)
    storage::set_hook([pause](storage::Step, const std::filesystem::path&) { std::this_thread::sleep_for(pause); });
  on_rank_0(*groups_.world, [&] {
    make_run_folder(spec_, directory_);
    make_run_folder(spec_, checkpoints_);
    lease_.emplace(lease_file(directory_));
    remove_temporaries(directory_, start_);
    clean_leftovers(checkpoints_);
    return std::string();
  });
}

void Trainer::start_or_resume() {
  ParamTable table;
  declare_parameters(section_, table);
  on_rank_0(*groups_.world, [&] {
    require_model_of_checkpoints(request_.resume, checkpoints_, table, section_);
    return std::string();
  });
  DamagedCheckpoints damaged;
  auto checkpoint = choose_checkpoint(request_.resume, checkpoints_, table, *groups_.world, {}, damaged);
  if (groups_.world->rank() != 0) log_errors_to_file(directory_ / "log.txt");
  on_rank_0(*groups_.world, [&] {
    log_to_file(directory_ / "log.txt");
    return std::string();
  });

  gemm_rate_ = peak_rate(ops_, spec_.precision.compute).flops;  // measured by all ranks at the same time
  groups_.world->all_reduce(std::span(&gemm_rate_, 1));
  memory_.emplace(ops_);
  ops_.reserve_scratch(prediction_.scratch_bytes);
  arena_.emplace(ops_.allocate(prediction_.arena_bytes, spec_.memory.huge_pages), prediction_.arena_bytes);
  if (const size_t bytes = prediction_.offloaded_bytes; bytes > 0)
    host_arena_.emplace(ops_.allocate_host(bytes, spec_.memory.huge_pages), bytes, Residence::host);
  model_.emplace(section_, model_options(spec_, pipeline_, groups_.at.pp), ops_, *arena_, groups_,
                 host_arena_ ? &*host_arena_ : nullptr);
  executor_.emplace(*model_, executor_options(spec_, pipeline_));
  if (const auto fault = gradient_outlier()) {
    executor_->set_outlier({fault->what, fault->element, fault->factor});
    if (leads())
      log::warning("fault injected by FPTRAIN_FAULT: gradients of channel {} of {} are multiplied by {:g}",
                   fault->element, fault->what, fault->factor);
  }
  find_reference(checkpoint);
  checkpoint = restore(std::move(checkpoint), std::move(damaged));
  if (!checkpoint) start_afresh();
  on_rank_0(*groups_.world, [&] {
    describe_run();  // only now: a run that may not resume here must not change what describes the one before
    join_job(at_.step);
    return std::string();
  });
  executor_->restore_weights(at_.updates);
  check_replicas(*model_, ops_);  // fingerprints verify only one copy of what several ranks have read
  saver_.emplace(
      checkpoints_, spec_, model_->params(), ops_, *groups_.world,
      SaveOptions{"fptrain " + request_.version, groups_.mesh, groups_.world->rank(), lease_ ? &*lease_ : nullptr});
  if (leads()) recorder_.emplace(spec_, directory_, at_.step, facts());
  warn_of_uneven_nodes();
  log::info("{}: {} parameters, {}, {:.2f} GiB predicted peak", describe_model(section_), prediction_.parameters,
            describe(spec_.parallel), static_cast<double>(predicted_peak()) / (1 << 30));
  log::info("{}", describe_length(spec_, &data_.train()));
  if (!data_.has_validation())
    log::info("no text is held out, so the run has no validation loss; data.validation names a dataset for it");
  for (const SetupEvent& e : setup_events_) event(at_.step, e.text, e.level);
  if (checkpoint) event(at_.step, fmt::format("resumed from {}", checkpoint->folder().string()));
  report("running");
}

// Warns if nodes have unequal parts of the data group: what reduces the traffic between nodes then has no effect.
void Trainer::warn_of_uneven_nodes() {
  const CommunicationSection& c = spec_.communication;
  const bool by_nodes = c.node_weights || c.by_nodes || (c.weight_differences && spec_.parallel.zero_stage == 3);
  World& world = *groups_.comm_world;
  if (!by_nodes || world.nodes().nodes() == 1 || !data_by_node(groups_.mesh, world.nodes(), world.rank()).empty())
    return;
  setup_events_.push_back(
      {"communication.node_weights, by_nodes and, under ZeRO 3, weight_differences have no effect: they need the same "
       "number of data-parallel ranks, at least 2, on each node, with consecutive ranks on one node"});
}

// Writes the run's spec and plan beside its checkpoints. Called on rank 0 only.
void Trainer::describe_run() const {
  RunSpec resolved = spec_;
  resolved.model = section_;
  write_file_atomically(directory_ / "config.yaml", dump(resolved));
  write_file_atomically(directory_ / "plan.txt",
                        describe(pipeline_, step_sizes(spec_.train, groups_.mesh.dp()).back()) +
                            describe(prediction_, spec_) + explain(prediction_));
  if (request_.forecast) write_file_atomically(directory_ / "plan.json", request_.forecast->json);
}

// Called on rank 0 only.
void Trainer::join_job(int64_t step) {
  job_ = slurm_job();
  if (!job_) return;
  check_and_record_step(spec_, *job_, step);
  if (const auto last = last_save(directory_ / "restarts.json"))
    shutdown_time_->earlier_save_took(last->seconds, last->ranks);
  job_clock_.emplace(*job_);
}

// Opens a model that must have the sizes and the token ids of this run.
WeightSource Trainer::open_model(const std::string& key, const std::string& path) {
  WeightSource source = open_on_all_ranks(key, path, *groups_.world);
  require_same_model(section_, source, spec_.model.init_changes);
  on_rank_0(*groups_.world, [&] {
    require_same_ids(key, source, data_.train().tokenizer(), spec_.model.init_changes);
    return std::string();
  });
  return source;
}

// Loads or computes DPO's scores of all answers under the reference model. A resumed run keeps the scores that it began
// with, even if the reference model has changed since; it does not compute them with another one.
void Trainer::find_reference(const std::optional<Checkpoint>& resumed) {
  ReferenceScores* scores = data_.reference();
  if (scores == nullptr || (resumed && scores->load(directory_, std::nullopt, *groups_.world))) return;
  const std::string& named = spec_.train.dpo.reference;
  const WeightSource source =
      named.empty() ? open_model("model.init_from", spec_.model.init_from) : open_model("train.dpo.reference", named);
  if (resumed) require_same_reference(*resumed, source);
  if (scores->load(directory_, source.identity(), *groups_.world)) return;
  load_on_all_ranks(source, model_->params(), ops_, *groups_.world);
  executor_->restore_weights(0);
  log::info("scoring all answers with the reference model {}", source.path().string());
  scores->compute(*executor_, spec_.train.micro_batch, directory_, source.identity(), leads());
}

void Trainer::require_same_reference(const Checkpoint& checkpoint, const WeightSource& source) const {
  const auto& extra = checkpoint.position().extra;
  const auto found = extra.find(kReference);  // older checkpoints lack it
  if (found == extra.end() || *found == source.identity() || request_.allow_data_change) return;
  throw ConfigError(fmt::format(
      "{}: the run began with another reference model than {} is now, and {} does not have its scores; name the model "
      "that it began with (train.dpo.reference), resume in the folder of the run, or accept another reference with "
      "--allow-data-change",
      checkpoint.folder().string(), source.path().string(), directory_.string()));
}

void Trainer::start_afresh() {
  if (spec_.model.init_from.empty()) return model_->params().initialize(ops_, spec_.run.seed);
  const WeightSource source = open_model("model.init_from", spec_.model.init_from);
  load_on_all_ranks(source, model_->params(), ops_, *groups_.world);
  carried_ = source.carried();
  setup_events_.push_back({fmt::format("initial weights from {}", source.path().string()), log::Level::info});
}

// Loads the state from a checkpoint, or from an earlier one if it turns out to be damaged. Returns the one loaded.
// `damaged`: those that were found so far.
std::optional<Checkpoint> Trainer::restore(std::optional<Checkpoint> checkpoint, DamagedCheckpoints damaged) {
  std::set<std::filesystem::path> loaded_damaged;
  for (; checkpoint; checkpoint = choose_checkpoint(request_.resume, checkpoints_, model_->params().table(),
                                                    *groups_.world, loaded_damaged, damaged)) {
    require_same_data(*checkpoint);
    const auto damage = load_or_find_damage(*checkpoint, model_->params(), ops_, *groups_.world);
    if (!damage) break;
    if (request_.resume != "auto") throw DataError(damage->text);
    if (leads()) log::warning("skipping a checkpoint: {}", damage->text);
    loaded_damaged.insert(checkpoint->folder());
    damaged[checkpoint->folder()] =
        damage->text + (damage->files_match ? "; its files have the hashes that were saved, but in two loads its "
                                              "tensors were not what was saved"
                                            : "");
  }
  for (const auto& [path, text] : damaged)
    setup_events_.push_back({fmt::format("skipped a damaged checkpoint: {}", text)});
  if (!checkpoint) return checkpoint;
  set_aside_on_all_ranks(damaged);
  const TrainState s = state_on_all_ranks(*checkpoint, *groups_.world);
  carried_ = s.carried;
  at_ = Progression::from(s);
  if (spec_.communication.max_gradient_error == 0) at_.guard.reset();  // what was measured then will be out of date
  if (GradientGuard* guard = executor_->gradient_guard(); guard != nullptr && at_.guard) guard->restore(*at_.guard);
  saved_step_ = resumed_step_ = at_.step;
  elapsed_before_ = at_.elapsed_s;
  if (leads()) compare_settings(s.config_yaml);
  return checkpoint;
}

// `config_yaml`: the run spec of the checkpoint that the run resumes.
void Trainer::compare_settings(const std::string& config_yaml) {
  RunSpec now = spec_, before;
  now.model = section_;
  try {
    before = parse_stored_spec(config_yaml, CheckpointManifest::kConfigName);
  } catch (const ConfigError& e) {
    setup_events_.push_back({fmt::format("the settings of the checkpoint cannot be compared: {}", e.what())});
    return;
  }
  if (const std::string changed = changed_settings(before, now); !changed.empty())
    setup_events_.push_back({fmt::format("changed since step {}: {}", at_.step, changed), log::Level::info});
  if (const auto raised = raised_learning_rate(before, now, at_.step)) setup_events_.push_back({*raised});
}

// Called only after another checkpoint could be loaded: otherwise this machine may be at fault, not the checkpoints.
// If they stayed, retention would count them among those it keeps.
void Trainer::set_aside_on_all_ranks(const DamagedCheckpoints& damaged) {
  on_rank_0(*groups_.world, [&] {
    if (!damaged.empty()) lease_->require();
    for (const auto& [path, text] : damaged) {
      try {
        setup_events_.push_back(
            {fmt::format("{} was set aside as {}", path.string(), set_aside(path).filename().string())});
      } catch (const DataError& e) {
        setup_events_.push_back({fmt::format("a damaged checkpoint cannot be set aside: {}", e.what())});
      }
    }
    return std::string();
  });
}

void Trainer::require_same_data(const Checkpoint& checkpoint) const {
  const std::string differences = data_differences(checkpoint.position().extra.value("data", nlohmann::json::object()),
                                                   data_identity(spec_, data_.train()));
  if (!differences.empty() && !request_.allow_data_change)
    throw ConfigError(fmt::format(
        "{}: resuming would not continue the same sequence of samples:{}\nrestore these keys, start another run, "
        "or accept it with --allow-data-change",
        checkpoint.folder().string(), differences));
}

TrainState Trainer::state() const {
  Progression at = at_;
  if (const GradientGuard* guard = executor_->gradient_guard()) at.guard = guard->state();
  TrainState s = at.state();
  if (!leads()) return s;
  s.extra["data"] = data_identity(spec_, data_.train());
  if (const ReferenceScores* scores = data_.reference()) s.extra[kReference] = scores->source();
  RunSpec resolved = spec_;
  resolved.model = section_;
  s.config_yaml = dump(resolved);
  s.tokenizer_json = data_.train().tokenizer().serialized();
  s.carried = carried_;
  std::set<int32_t> ends;
  std::set<std::string> templates;
  for (const auto& dataset : data_.train().datasets()) {
    if (const auto id = dataset->end_of_message()) ends.insert(*id);
    if (const std::string t = dataset->chat_template(); !t.empty()) templates.insert(t);
  }
  if (!ends.empty()) s.extra["end_of_message_ids"] = ends;
  // A mixture of several templates leaves the choice to `generate --chat-template`.
  if (templates.size() == 1) s.extra["chat_template"] = *templates.begin();
  return s;
}

RunFacts Trainer::facts() const {
  RunFacts f;
  f.name = spec_.run.name;
  f.model = describe_model(section_);
  const size_t datasets = data_.train().datasets().size();
  f.data = fmt::format("{} dataset{}, {} tokenizer with {} ids", datasets, datasets == 1 ? "" : "s",
                       data_.train().tokenizer().kind(), data_.train().tokenizer().vocab_size());
  f.objective = name_of(spec_.train.objective);
  f.initial_weights =
      spec_.model.init_from.empty() ? fmt::format("random, seed {}", spec_.run.seed) : "from " + spec_.model.init_from;
  f.length = describe_length(spec_, &data_.train());
  f.compute = fmt::format("{}, {}, {:.0f} GFLOP/s in large GEMMs (MFU is relative to this)", ops_.name(),
                          spec_.precision.compute, gemm_rate_ / 1e9);
  f.version = request_.version;
  f.parameters = prediction_.parameters;
  f.total_steps = spec_.train.steps;
  f.predicted_peak_bytes = predicted_peak();
  if (request_.forecast) f.predicted_tokens_per_s = request_.forecast->tokens_per_s;
  f.started = unix_seconds();
  f.machine = inspect_machine(directory_);
  return f;
}

}  // namespace fp
