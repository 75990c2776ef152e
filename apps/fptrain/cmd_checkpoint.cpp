#include <algorithm>
#include <cmath>
#include <memory>

#include "base/human_text.h"
#include "base/shown.h"
#include "checkpoint/consolidate.h"
#include "checkpoint/folder.h"
#include "checkpoint/inspect.h"
#include "checkpoint/verify_hdf5.h"
#include "commands.h"
#include "hdf5_flag.h"
#include "train/universal_patterns.h"

namespace fp {
namespace {

// As diff(1): 0: no difference, 1: different; 3 (bad data): not comparable.
constexpr ExitCode kDifferent = static_cast<ExitCode>(1);

std::string loss_text(const CheckpointManifest& m) {
  return std::isnan(m.last_loss) ? "-" : fmt::format("{:.9g}", m.last_loss);
}

// Returns the checkpoints of a run directory or a checkpoints folder, newest first; or `folder` if it is a checkpoint.
std::vector<std::filesystem::path> checkpoints_at(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths = checkpoints_in(checkpoints_folder_at(folder));
  const std::filesystem::path real = std::filesystem::canonical(folder);
  if (paths.empty() &&
      (std::filesystem::exists(real / CheckpointManifest::kFileName) || checkpoint_step(real.filename().string())))
    paths.push_back(real);
  return paths;
}

void list(const std::string& where, bool verify, CommandResult& result) {
  const std::vector<std::filesystem::path> paths = checkpoints_at(where);
  if (paths.empty()) return fmt::print("{}: no checkpoints\n", checkpoints_folder_at(where).string());
  fmt::print("{:<16}{:>12}  {:>11}  {:>10}  {:<20}  {}\n", "checkpoint", "samples", "loss", "size", "saved", "state");
  for (const std::filesystem::path& path : paths) {
    const std::string name = path.filename().string();
    try {
      const Checkpoint c = Checkpoint::open(path, verify ? Checkpoint::Verify::everything : Checkpoint::Verify::sizes);
      if (checkpoint_step(name)) require_step_of_name(c);
      const CheckpointManifest& m = c.manifest();
      fmt::print("{:<16}{:>12}  {:>11}  {:>10}  {:<20}  {}\n", name, m.consumed_samples, loss_text(m),
                 human_bytes(static_cast<double>(m.bytes())), shown(m.created_at),
                 verify ? "complete, content verified" : "complete, content not verified");
    } catch (const UserError& e) {
      fmt::print("{:<16}{}: {}\n", name, e.code() == ExitCode::bad_data ? "damaged" : "not known", printable(e.what()));
      result.code = e.code();
    }
  }
}

// The states that any parameter has, without that of the parameter itself.
std::vector<std::string> states_beside_param(const CheckpointManifest& m) {
  std::vector<std::string> names;
  for (const CheckpointParam& p : m.parameters)
    for (const StoredState& s : p.states)
      if (s.name != kParamState && std::ranges::find(names, s.name) == names.end()) names.push_back(s.name);
  return names;
}

void print_header(const Checkpoint& c) {
  const CheckpointManifest& m = c.manifest();
  int64_t elements = 0;
  for (const CheckpointParam& p : m.parameters) elements += p.shape.elements();
  fmt::print("{}\n", c.folder().string());
  fmt::print("  step {}, {} samples, last loss {}\n", m.step, m.consumed_samples, loss_text(m));
  fmt::print("  saved {} by {} (pp {} dp {} sp {} tp {})\n", shown(m.created_at), shown(m.created_by), m.mesh.pp(),
             m.mesh.dp(), m.mesh.sp(), m.mesh.tp());
  fmt::print("  {} parameters in {} tensors, {} in {} files, {}\n", elements, m.parameters.size(),
             human_bytes(static_cast<double>(m.bytes())), m.files.size(),
             states_beside_param(m).empty() ? "weights only" : "with optimizer states");
  for (const auto& [key, value] : m.extra.items()) fmt::print("  {}: {}\n", shown(key), printable(value.dump()));
}

void inspect_all(const Checkpoint& c) {
  FragmentReader reader(c);
  size_t width = 9;
  for (const CheckpointParam& p : c.manifest().parameters) width = std::max(width, p.name.size());
  const std::vector<std::string> states = states_beside_param(c.manifest());
  fmt::print("{:<{}}  {:<16}  {:>11}  {:>11}  {:>11}", "parameter", width, "shape", "norm", "min", "max");
  for (const std::string& state : states) fmt::print("  {:>11}", state);
  fmt::print("  pattern\n");
  const auto patterns = universal_patterns(c);
  for (const CheckpointParam& p : c.manifest().parameters) {
    const TensorStats s = tensor_stats(reader, p.name, kParamState);
    int64_t nonfinite = s.nonfinite;
    fmt::print("{:<{}}  {:<16}  {:>11}  {:>11}  {:>11}", p.name, width, p.shape.str(), fmt::format("{:.5g}", s.norm),
               fmt::format("{:.5g}", s.min), fmt::format("{:.5g}", s.max));
    for (const std::string& state : states) {
      if (p.find(state) == nullptr) {
        fmt::print("  {:>11}", "-");
        continue;
      }
      const TensorStats of_state = tensor_stats(reader, p.name, state);
      nonfinite += of_state.nonfinite;
      fmt::print("  {:>11}", fmt::format("{:.5g}", of_state.norm));
    }
    fmt::print("  {}{}\n", patterns.contains(p.name) ? patterns.at(p.name).text() : "-",
               nonfinite > 0 ? fmt::format("  {} non-finite", nonfinite) : "");
  }
}

void inspect_one(const Checkpoint& c, const std::string& name) {
  const CheckpointParam* p = c.manifest().parameter(name);
  if (p == nullptr)
    throw ConfigError(fmt::format("--param {}: {} holds no such parameter; `fptrain checkpoint inspect {}` lists them",
                                  name, c.folder().string(), c.folder().string()));
  FragmentReader reader(c);
  fmt::print("{} {}\n", p->name, p->shape.str());
  if (const auto patterns = universal_patterns(c); patterns.contains(name))
    fmt::print("  pattern: {}\n", patterns.at(name).text());
  for (const StoredState& state : p->states) {
    const TensorStats s = tensor_stats(reader, name, state.name);
    fmt::print("  {}: norm {:.9g}, mean {:.9g}, min {:.9g}, max {:.9g}, non-finite {} of {}, fingerprint {}\n",
               state.name, s.norm, s.mean, s.min, s.max, s.nonfinite, s.elements, hex(state.fingerprint));
    std::string values;
    for (const float x : first_elements(reader, name, state.name, 8)) values += fmt::format(" {:.9g}", x);
    fmt::print("    first:{}\n", values);
    for (const StoredFragment& f : reader.index().fragments(*p, state.name))
      fmt::print("    {} of shape {} at {} in {}\n", dataset_name(name, state.name, f.number), f.box.count.str(),
                 f.box.start.str(), rank_file_name(f.rank));
  }
}

void verify_one(const std::filesystem::path& path, bool hdf5) {
  const Checkpoint c = Checkpoint::open(path);
  verify_tensors(c);
  if (hdf5) verify_with_hdf5(c);
  fmt::print("{}: good ({} files, {}, {} tensors{})\n", path.string(), c.manifest().files.size() + 1,
             human_bytes(static_cast<double>(c.manifest().bytes())), c.manifest().parameters.size(),
             hdf5 ? ", as HDF5 reads them, too" : "");
}

// Verifies a checkpoint, or all checkpoints of a run.
void verify(const std::string& where, bool hdf5, CommandResult& result) {
  const std::filesystem::path folder = checkpoints_folder_at(where);
  const std::vector<std::filesystem::path> paths = checkpoints_in(folder);
  if (paths.empty()) return verify_one(where, hdf5);
  for (const std::filesystem::path& path : paths) {
    try {
      verify_one(path, hdf5);
    } catch (const DataError& e) {
      fmt::print("{}\n", printable(e.what()));
      result.code = ExitCode::bad_data;
    } catch (const OlderFormatError& e) {
      fmt::print("{}\n", e.what());
      if (result.code == ExitCode::ok) result.code = e.code();
    }
  }
}

void diff(const std::string& a, const std::string& b, CommandResult& result) {
  const CheckpointDifference d = compare(open_checkpoint_at(a), open_checkpoint_at(b));
  for (const std::string& line : d.structure) fmt::print("{}\n", line);
  for (const TensorDifference& t : d.tensors)
    fmt::print("{} of {}: {} of {} elements differ, by at most {:.9g}\n", t.state, t.param, t.differing, t.elements,
               t.max_abs);
  for (const std::string& line : d.state) fmt::print("{}\n", line);
  for (const std::string& line : d.notes) fmt::print("note: {}\n", line);
  if (d.tensors.empty())
    fmt::print("{} tensors compared, all bit-identical{}\n", d.compared,
               d.identical() ? "; step, samples and loss are the same" : "");
  else
    fmt::print("{} tensors compared, {} differ\n", d.compared, d.tensors.size());
  if (!d.identical()) result.code = kDifferent;
}

}  // namespace

void add_checkpoint_command(cli::App& app, CommandResult& result) {
  struct CheckpointArguments {
    std::string path, other, param, output;
    bool verify = false;
    Hdf5Flag hdf5;
  };
  const auto a = std::make_shared<CheckpointArguments>();
  cli::App* command = app.add_subcommand("checkpoint", "List, inspect, verify, compare, import and export checkpoints");
  command->require_subcommand(1);

  cli::App* list_command =
      command->add_subcommand("list", "List the checkpoints of a run, newest first; exit code 3 if some are damaged");
  list_command->add_option("run", a->path, "run directory, folder of checkpoints, or one checkpoint")->required();
  list_command->add_flag("--verify", a->verify, "also read every file and compare it with its hash");
  list_command->callback([a, &result] { list(a->path, a->verify, result); });

  cli::App* inspect_command =
      command->add_subcommand("inspect", "Show the tensors of a checkpoint, with norms and ranges");
  inspect_command->add_option("path", a->path, "checkpoint, or run directory (its newest one)")->required();
  inspect_command->add_option("--param", a->param,
                              "show only this parameter, with its first values and where it is stored");
  a->hdf5.add_to(*inspect_command);
  inspect_command->callback([a] {
    a->hdf5.apply();
    const Checkpoint c = open_checkpoint_at(a->path);
    if (!a->param.empty()) return inspect_one(c, a->param);
    print_header(c);
    inspect_all(c);
  });

  cli::App* verify_command = command->add_subcommand(
      "verify",
      "Check every byte and every tensor of a checkpoint; exit code 3 and the names of damaged files if it is bad");
  verify_command->add_option("path", a->path, "checkpoint, or run directory (all of its checkpoints)")->required();
  a->hdf5.add_to(*verify_command,
                 "also verify index.h5, which h5py and h5dump use, and read checkpoints of older versions; use it only "
                 "for files that you trust, as HDF5 parses them");
  verify_command->callback([a, &result] {
    a->hdf5.apply();
    verify(a->path, a->hdf5.given(), result);
  });

  cli::App* diff_command = command->add_subcommand(
      "diff", "Compare two checkpoints bit by bit; exit code 0: identical, 1: different, 3: one is bad");
  diff_command->add_option("a", a->path, "checkpoint, or run directory (its newest one)")->required();
  diff_command->add_option("b", a->other, "checkpoint, or run directory (its newest one)")->required();
  a->hdf5.add_to(*diff_command);
  diff_command->callback([a, &result] {
    a->hdf5.apply();
    diff(a->path, a->other, result);
  });

  cli::App* consolidate_command = command->add_subcommand(
      "consolidate", "Copy a checkpoint into a single file with each tensor in one piece, whatever mesh saved it");
  consolidate_command->add_option("path", a->path, "checkpoint, or run directory (its newest one)")->required();
  consolidate_command->add_option("--out", a->output, "path of the new checkpoint")->required();
  a->hdf5.add_to(*consolidate_command);
  consolidate_command->callback([a] {
    a->hdf5.apply();
    const Checkpoint c = open_checkpoint_at(a->path);
    consolidate(c, a->output, std::string("fptrain ") + FPTRAIN_VERSION);
    fmt::print("{}: step {}, made and verified\n", a->output, c.manifest().step);
  });
  add_checkpoint_transfer_commands(*command);
}

}  // namespace fp
