#include "checkpoint/manifest.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/shown.h"
#include "checkpoint/plain_file.h"
#include "io/filesystem.h"
#include "io/json_numbers.h"

namespace fp {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kFormat = "fptrain checkpoint";
constexpr uint64_t kMostManifest = uint64_t{256} << 20;  // bytes: more than a million ranks or parameters need

// The manifest ends with the hash of every byte before this line.
std::string last_line(std::string_view before) {
  return fmt::format("  \"xxh3\": \"{}\"\n}}\n", hash_bytes(before.data(), before.size()));
}

ordered_json to_json(const CheckpointParam& p) {
  ordered_json shape = ordered_json::array(), states = ordered_json::array();
  for (int i = 0; i < p.shape.rank(); ++i) shape.push_back(p.shape[i]);
  for (const StoredState& s : p.states)
    states.push_back({{"name", s.name}, {"dtype", name_of(s.dtype)}, {"fingerprint", hex(s.fingerprint)}});
  return {{"name", p.name}, {"shape", shape}, {"states", states}};
}

constexpr int64_t kMostBytes = std::numeric_limits<int64_t>::max();
constexpr size_t kLongestName = 1024;  // bytes
constexpr size_t kMostStates = 64;     // of a parameter
constexpr int64_t kMostRanks = int64_t{1} << 24;

// Checks a name that is used in paths, of the folder or in an HDF5 file, and is shown on terminals.
std::string name_from(const json& j, const std::string& what) {
  std::string name = j.get<std::string>();
  if (name.empty() || name.size() > kLongestName || name == "." || name == ".." ||
      name.find('/') != std::string::npos || shown(name, kLongestName) != name)
    throw DataError(fmt::format("'{}' is not the name of {}", shown(name), what));
  return name;
}

// Checks a name that HDF5 files use for datasets.
std::string dataset_name_from(const json& j, const std::string& what) {
  std::string name = name_from(j, what);
  if (name.find('%') != std::string::npos) throw DataError(fmt::format("'{}' is not the name of {}", name, what));
  return name;
}

// Checks that a text is `digits` lower-case hexadecimal digits.
std::string hex_from(const json& j, size_t digits, const std::string& what) {
  std::string text = j.get<std::string>();
  if (text.size() != digits || text.find_first_not_of("0123456789abcdef") != std::string::npos)
    throw DataError(fmt::format("{} is '{}'; legal: {} hexadecimal digits", what, shown(text), digits));
  return text;
}

Shape shape_from(const json& j, const std::string& name) {
  if (!j.is_array() || j.empty() || j.size() > Shape::kMaxRank)
    throw DataError(
        fmt::format("{} has {} dimensions; legal: 1 to {}", name, j.is_array() ? j.size() : 0, int{Shape::kMaxRank}));
  Shape shape;
  int64_t most = kMostBytes / static_cast<int64_t>(sizeof(float));  // limit of the next dimension
  for (const json& d : j) {
    shape.push_back(integer_from<int64_t>(d, "a dimension of " + name, 1, most));
    most /= shape[shape.rank() - 1];
  }
  return shape;
}

uint64_t fingerprint_from(const json& j, const std::string& name) {
  return std::stoull(hex_from(j, 16, "a fingerprint of " + name), nullptr, 16);
}

// Version 1 has these states, all of them fp32, as an object.
std::vector<StoredState> states_of_version_1(const json& prints, const std::string& name) {
  std::vector<StoredState> states;
  for (const char* state : {kParamState, "exp_avg", "exp_avg_sq"})
    if (prints.contains(state)) states.push_back({state, fingerprint_from(prints.at(state), name)});
  for (const auto& [state, ignored] : prints.items())
    if (std::ranges::find(states, state, &StoredState::name) == states.end())
      throw DataError(fmt::format("{} has a state of unknown kind '{}'", name, shown(state)));
  return states;
}

StoredState state_from(const json& j, const std::string& name, int version) {
  StoredState s;
  s.name = dataset_name_from(j.at("name"), "a state of " + name);
  s.fingerprint = fingerprint_from(j.at("fingerprint"), name);
  const std::string dtype = j.at("dtype").get<std::string>();
  if (version > 2 && dtype == name_of(DType::bf16))
    s.dtype = DType::bf16;
  else if (dtype != name_of(DType::f32))
    throw DataError(fmt::format("{} of {} has the type '{}'; legal in version {}: {}", s.name, name, shown(dtype),
                                version, version > 2 ? "fp32, bf16" : "fp32"));
  return s;
}

CheckpointParam parameter_from(const json& j, int version) {
  CheckpointParam p;
  p.name = dataset_name_from(j.at("name"), "a parameter");
  p.shape = shape_from(j.at("shape"), p.name);
  if (version == 1) {
    p.states = states_of_version_1(j.at("fingerprints"), p.name);
  } else {
    for (const json& state : j.at("states")) {
      p.states.push_back(state_from(state, p.name, version));
      if (p.find(p.states.back().name) != &p.states.back())
        throw DataError(fmt::format("{} of {} is listed twice", p.states.back().name, p.name));
      if (p.states.size() > kMostStates)
        throw DataError(fmt::format("{} has more than {} states", p.name, kMostStates));
    }
  }
  if (p.states.empty() || p.states.front().name != kParamState)
    throw DataError(fmt::format("the first state of {} is not the parameter itself, '{}'", p.name, kParamState));
  return p;
}

CheckpointFile file_from(const json& j) {
  CheckpointFile f;
  f.name = name_from(j.at("name"), "a file in the folder");
  f.bytes = static_cast<uint64_t>(integer_from<int64_t>(j.at("bytes"), "bytes of " + f.name, 0, kMostBytes));
  f.xxh3 = hex_from(j.at("xxh3"), 32, "the hash of " + f.name);
  return f;
}

Mesh mesh_from(const json& j) {
  int64_t ranks = 1;
  const auto extent = [&](const char* key) {
    const int n = integer_from<int>(j.at(key), fmt::format("mesh.{}", key), 1, std::numeric_limits<int>::max());
    if ((ranks *= n) > kMostRanks) throw DataError(fmt::format("mesh has more than {} ranks", kMostRanks));
    return n;
  };
  const int pp = extent("pp"), dp = extent("dp"), sp = extent("sp"), tp = extent("tp");
  return Mesh(pp, dp, sp, tp, static_cast<int>(ranks));
}

// Checks that names are unique and that the total size fits its type.
void require_consistent(const CheckpointManifest& m) {
  std::set<std::string_view> names;
  for (const CheckpointParam& p : m.parameters)
    if (!names.insert(p.name).second) throw DataError(fmt::format("the parameter {} is named twice", p.name));
  std::map<std::string_view, DType> types;
  for (const CheckpointParam& p : m.parameters)
    for (const StoredState& s : p.states)
      if (const DType first = types.emplace(s.name, s.dtype).first->second; first != s.dtype)
        throw DataError(fmt::format("{} of {} has the type {}, and {} of other parameters", s.name, p.name,
                                    name_of(s.dtype), name_of(first)));
  names.clear();
  int64_t left = kMostBytes;
  for (const CheckpointFile& f : m.files) {
    if (!names.insert(f.name).second) throw DataError(fmt::format("the file {} is named twice", f.name));
    if (f.name == CheckpointManifest::kFileName) throw DataError("it names itself among the files");
    if (static_cast<int64_t>(f.bytes) > left) throw DataError("its files have more bytes than can be counted");
    left -= static_cast<int64_t>(f.bytes);
  }
}

CheckpointManifest manifest_from(const json& j, int version) {
  CheckpointManifest m;
  m.created_by = j.at("created_by").get<std::string>();
  m.created_at = j.at("created_at").get<std::string>();
  m.step = integer_from<int64_t>(j.at("step"), "step", 0, kMostBytes);
  m.consumed_samples =
      integer_from<uint64_t>(j.at("consumed_samples"), "consumed_samples", 0, std::numeric_limits<uint64_t>::max());
  m.last_loss =
      j.at("last_loss").is_null() ? std::numeric_limits<double>::quiet_NaN() : j.at("last_loss").get<double>();
  m.extra = j.at("extra");
  if (!m.extra.is_object()) throw DataError(fmt::format("extra is {}; legal: an object", m.extra.type_name()));
  m.mesh = mesh_from(j.at("mesh"));
  for (const json& p : j.at("parameters")) m.parameters.push_back(parameter_from(p, version));
  for (const json& f : j.at("files")) m.files.push_back(file_from(f));
  require_consistent(m);
  return m;
}

// Returns null for text that is refused: that is damage as long as the text does not match its hash.
json parsed(const std::string& text, const std::string& where, std::optional<JsonError>& refused) {
  try {
    return parse_json(text, where, {.bytes = kMostManifest});
  } catch (const JsonError& e) {
    refused = e;
    return nullptr;
  }
}

}  // namespace

NewerFormatError::NewerFormatError(std::filesystem::path checkpoint, const std::string& version,
                                   const nlohmann::json& created_by)
    : ConfigError(
          fmt::format("{}: is of format version {}, this program reads up to version {}: use {}, or a later one",
                      checkpoint.string(), version, CheckpointManifest::kVersion,
                      created_by.is_string() ? "the program that saved it, " + shown(created_by.get<std::string>())
                                             : "a newer fptrain")),
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

int CheckpointManifest::version() const {
  for (const CheckpointParam& p : parameters)
    for (const StoredState& s : p.states)
      if (s.dtype != DType::f32) return 3;
  return 2;
}

uint64_t CheckpointManifest::bytes() const {
  uint64_t sum = 0;
  for (const CheckpointFile& f : files) sum += f.bytes;
  return sum;
}

const StoredState* CheckpointParam::find(std::string_view state) const {
  const auto it = std::ranges::find(states, state, &StoredState::name);
  return it == states.end() ? nullptr : &*it;
}

std::string serialize(const CheckpointManifest& m) {
  ordered_json parameters = ordered_json::array(), files = ordered_json::array();
  for (const CheckpointParam& p : m.parameters) parameters.push_back(to_json(p));
  for (const CheckpointFile& f : m.files) files.push_back({{"name", f.name}, {"bytes", f.bytes}, {"xxh3", f.xxh3}});
  const ordered_json j = {
      {"format", kFormat},
      {"version", m.version()},
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
  text.replace(text.size() - 2, 2, ",\n");  // replaces "\n}", so that the hash can follow
  return text + last_line(text);
}

CheckpointManifest read_checkpoint_manifest(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / CheckpointManifest::kFileName;
  if (!is_entry(path))
    throw DataError(fmt::format("{}: not a complete fptrain checkpoint: it has no {}", folder.string(),
                                CheckpointManifest::kFileName));
  return parse_checkpoint_manifest(read_plain_file(path, kMostManifest), folder);
}

CheckpointManifest parse_checkpoint_manifest(const std::string& text, const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / CheckpointManifest::kFileName;
  std::optional<JsonError> refused;
  const json j = parsed(text, path.string(), refused);
  const bool ours = j.is_object() && j.contains("format") && j["format"] == kFormat;
  // Every version ends with its hash in the same way, so that damage is never mistaken for another version.
  const size_t tail = last_line("").size();
  const std::string_view before = std::string_view(text).substr(0, text.size() - std::min(tail, text.size()));
  if (text.size() < tail || text.substr(before.size()) != last_line(before))
    throw DataError(fmt::format("{}: {}", path.string(),
                                ours ? "has been altered or cut short: its content does not match its own hash"
                                     : "is not the manifest of an fptrain checkpoint, or is damaged"));
  if (refused) throw *refused;
  if (!ours) throw DataError(fmt::format("{}: is not the manifest of an fptrain checkpoint", path.string()));
  const json version = j.value("version", json());
  if (version.is_number_integer() && version > CheckpointManifest::kVersion)
    throw NewerFormatError(folder, version.dump(), j.value("created_by", json()));
  if (!version.is_number_integer() || version < 1)
    throw DataError(fmt::format("{}: is of version {}; this program reads versions 1 to {}", path.string(),
                                shown(version.dump()), CheckpointManifest::kVersion));
  try {
    return manifest_from(j, version.get<int>());
  } catch (const std::bad_alloc&) {  // not a fault of the file
    throw;
  } catch (const std::exception& e) {
    throw DataError(fmt::format("{}: {}", path.string(), e.what()));
  }
}

}  // namespace fp
