#include "checkpoint/manifest.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/filesystem.h"

namespace fp {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kFormat = "fptrain checkpoint";

// The manifest ends with the hash of every byte before this line.
std::string last_line(std::string_view before) {
  return fmt::format("  \"xxh3\": \"{}\"\n}}\n", hash_bytes(before.data(), before.size()));
}

ordered_json to_json(const CheckpointParam& p) {
  ordered_json shape = ordered_json::array(), prints = ordered_json::object();
  for (int i = 0; i < p.shape.rank(); ++i) shape.push_back(p.shape[i]);
  for (const auto& [kind, print] : p.fingerprints) prints[name_of(kind)] = hex(print);
  return {{"name", p.name}, {"shape", shape}, {"fingerprints", prints}};
}

CheckpointParam parameter_from(const json& j) {
  CheckpointParam p;
  p.name = j.at("name").get<std::string>();
  if (j.at("shape").size() > Shape::kMaxRank) throw DataError(p.name + " has too many dimensions");
  for (const json& d : j.at("shape")) p.shape.push_back(d.get<int64_t>());
  for (const auto& [name, print] : j.at("fingerprints").items()) {
    const auto kind = state_kind(name);
    if (!kind) throw DataError(fmt::format("{} has a state of unknown kind '{}'", p.name, name));
    p.fingerprints[*kind] = std::stoull(print.get<std::string>(), nullptr, 16);
  }
  return p;
}

CheckpointFile file_from(const json& j) {
  CheckpointFile f{j.at("name").get<std::string>(), j.at("bytes").get<uint64_t>(), j.at("xxh3").get<std::string>()};
  if (f.name.empty() || f.name == "." || f.name == ".." || f.name.find('/') != std::string::npos)
    throw DataError(fmt::format("'{}' is not the name of a file in the folder", f.name));
  return f;
}

Mesh mesh_from(const json& j) {
  const int pp = j.at("pp"), dp = j.at("dp"), sp = j.at("sp"), tp = j.at("tp");
  return Mesh(pp, dp, sp, tp, pp * dp * sp * tp);
}

CheckpointManifest manifest_from(const json& j) {
  CheckpointManifest m;
  m.created_by = j.at("created_by").get<std::string>();
  m.created_at = j.at("created_at").get<std::string>();
  m.step = j.at("step").get<int64_t>();
  m.consumed_samples = j.at("consumed_samples").get<uint64_t>();
  m.last_loss =
      j.at("last_loss").is_null() ? std::numeric_limits<double>::quiet_NaN() : j.at("last_loss").get<double>();
  m.extra = j.at("extra");
  m.mesh = mesh_from(j.at("mesh"));
  for (const json& p : j.at("parameters")) m.parameters.push_back(parameter_from(p));
  for (const json& f : j.at("files")) m.files.push_back(file_from(f));
  return m;
}

}  // namespace

NewerFormatError::NewerFormatError(std::filesystem::path checkpoint, const std::string& version,
                                   const nlohmann::json& created_by)
    : ConfigError(fmt::format(
          "{}: is of format version {}, this program reads version {}: use {}, or a later one", checkpoint.string(),
          version, CheckpointManifest::kVersion,
          created_by.is_string() ? "the program that saved it, " + created_by.get<std::string>() : "a newer fptrain")),
      folder(std::move(checkpoint)) {}

const CheckpointFile* CheckpointManifest::file(std::string_view name) const {
  const auto it = std::find_if(files.begin(), files.end(), [&](const CheckpointFile& f) { return f.name == name; });
  return it == files.end() ? nullptr : &*it;
}

const CheckpointParam* CheckpointManifest::parameter(std::string_view name) const {
  const auto it =
      std::find_if(parameters.begin(), parameters.end(), [&](const CheckpointParam& p) { return p.name == name; });
  return it == parameters.end() ? nullptr : &*it;
}

uint64_t CheckpointManifest::bytes() const {
  uint64_t sum = 0;
  for (const CheckpointFile& f : files) sum += f.bytes;
  return sum;
}

bool CheckpointManifest::has_moments() const {
  return std::all_of(parameters.begin(), parameters.end(),
                     [](const CheckpointParam& p) { return p.fingerprints.size() == kStateKinds.size(); });
}

std::string serialize(const CheckpointManifest& m) {
  ordered_json parameters = ordered_json::array(), files = ordered_json::array();
  for (const CheckpointParam& p : m.parameters) parameters.push_back(to_json(p));
  for (const CheckpointFile& f : m.files) files.push_back({{"name", f.name}, {"bytes", f.bytes}, {"xxh3", f.xxh3}});
  const ordered_json j = {
      {"format", kFormat},
      {"version", CheckpointManifest::kVersion},
      {"created_by", m.created_by},
      {"created_at", m.created_at},
      {"step", m.step},
      {"consumed_samples", m.consumed_samples},
      {"last_loss", std::isfinite(m.last_loss) ? ordered_json(m.last_loss) : ordered_json()},
      {"extra", ordered_json(m.extra)},
      {"mesh", {{"pp", m.mesh.pp()}, {"dp", m.mesh.dp()}, {"sp", m.mesh.sp()}, {"tp", m.mesh.tp()}}},
      {"parameters", parameters},
      {"files", files}};
  std::string text = j.dump(2, ' ', false, ordered_json::error_handler_t::replace);
  text.replace(text.size() - 2, 2, ",\n");  // "\n}" makes room for the hash
  return text + last_line(text);
}

CheckpointManifest read_checkpoint_manifest(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / CheckpointManifest::kFileName;
  if (!is_there(path))
    throw DataError(fmt::format("{}: not a complete fptrain checkpoint: it has no {}", folder.string(),
                                CheckpointManifest::kFileName));
  const std::string text = read_file(path);
  const json j = json::parse(text, nullptr, false);
  const bool ours = j.is_object() && j.contains("format") && j["format"] == kFormat;
  // Every version ends with its hash in the same way, so that damage is never taken for another version.
  const size_t tail = last_line("").size();
  const std::string_view before = std::string_view(text).substr(0, text.size() - std::min(tail, text.size()));
  if (text.size() < tail || text.substr(before.size()) != last_line(before))
    throw DataError(fmt::format("{}: {}", path.string(),
                                ours ? "has been altered or cut short: its content does not match its own hash"
                                     : "is not the manifest of an fptrain checkpoint, or is damaged"));
  if (!ours) throw DataError(fmt::format("{}: is not the manifest of an fptrain checkpoint", path.string()));
  const json version = j.value("version", json());
  if (version.is_number_integer() && version > CheckpointManifest::kVersion)
    throw NewerFormatError(folder, version.dump(), j.value("created_by", json()));
  if (version != CheckpointManifest::kVersion)
    throw DataError(fmt::format("{}: is of version {}; this program reads version {}", path.string(), version.dump(),
                                CheckpointManifest::kVersion));
  try {
    return manifest_from(j);
  } catch (const std::exception& e) {
    throw DataError(fmt::format("{}: {}", path.string(), e.what()));
  }
}

}  // namespace fp
