#include "train/agreement.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "config/load.h"
#include "io/json.h"
#include "launch/placement.h"
#include "launch/stall.h"
#include "train/coordination.h"
#include "train/resume.h"

namespace fp {
namespace {

constexpr size_t kMostKeys = 3;       // named in a message
constexpr size_t kMostLetters = 200;  // of a value in a message

constexpr const char* kAdvice =
    "Each rank reads its command line, presets, the data and the program itself: start all of them the same way. "
    "If a file was written or changed a moment ago, a network file system may still show another node the old content: "
    "start again in a minute";

std::string shortened(const std::string& value) {
  return value.size() <= kMostLetters ? value : value.substr(0, kMostLetters) + "...";
}

std::optional<std::string> value_of(const Facts& facts, const std::string& key) {
  const auto found = std::ranges::find(facts, key, &Facts::value_type::first);
  return found == facts.end() ? std::nullopt : std::optional(found->second);
}

struct Difference {
  std::string key, of_rank_0, of_this_rank;
};

// Returns the first differences in the order of rank 0's facts; keys that rank 0 does not have come last.
std::vector<Difference> differences(const Facts& of_rank_0, const Facts& mine) {
  std::vector<Difference> found;
  const auto compare = [&](const std::string& key) {
    const auto theirs = value_of(of_rank_0, key), own = value_of(mine, key);
    if (theirs != own && found.size() < kMostKeys)
      found.push_back({key, shortened(theirs.value_or("absent")), shortened(own.value_or("absent"))});
  };
  for (const auto& [key, value] : of_rank_0) compare(key);
  for (const auto& [key, value] : mine)
    if (!value_of(of_rank_0, key)) compare(key);
  return found;
}

// Returns "optimizer.lr is 0.001 on rank 0 and 0.03 on ranks 1-3" from the differences that each rank has found.
std::string sentence(const std::vector<std::string>& found_by_ranks) {
  struct Key {
    std::string of_rank_0;
    std::map<std::string, std::vector<int>> others;  // ranks by value
  };
  std::vector<std::pair<std::string, Key>> keys;
  for (size_t rank = 0; rank < found_by_ranks.size(); ++rank) {
    if (found_by_ranks[rank].empty()) continue;
    for (const auto& d : parse_json(found_by_ranks[rank], fmt::format("what rank {} says", rank), kJsonOfRanks)) {
      const std::string name = d[0];
      auto key = std::ranges::find(keys, name, &std::pair<std::string, Key>::first);
      if (key == keys.end()) {
        if (keys.size() == kMostKeys) continue;
        key = keys.insert(key, {name, Key{d[1], {}}});
      }
      key->second.others[d[2]].push_back(static_cast<int>(rank));
    }
  }
  std::string text;
  for (const auto& [name, key] : keys) {
    text += fmt::format("{}{} is {} on rank 0", text.empty() ? "" : "; ", name, key.of_rank_0);
    for (const auto& [value, ranks] : key.others) text += fmt::format(" and {} on {}", value, ranks_text(ranks));
  }
  return text;
}

nlohmann::json to_json(const std::vector<Difference>& list) {
  nlohmann::json json = nlohmann::json::array();
  for (const Difference& d : list) json.push_back({d.key, d.of_rank_0, d.of_this_rank});
  return json;
}

// Paths may hold bytes that are not UTF-8.
std::string text_of(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Rank 0 broadcasts its facts once; the ranks return one flag, and texts only when facts differ.
void compare(Group& world, const std::vector<Difference>& found) {
  if (world.lowest_with(!found.empty()) < 0) return;
  const std::vector<std::string> all = world.gather(found.empty() ? "" : text_of(to_json(found)));
  on_rank_0(world, [&]() -> std::string {
    throw ConfigError(fmt::format("the ranks of this run differ: {}. {}", sentence(all), kAdvice));
  });
}

std::string usability(const RankResult& result, const std::string& where) {
  return result.ok() ? "usable" : "not usable" + where + ": " + result.text;
}

}  // namespace

Facts facts_of(const RunSpec& spec) { return flatten(spec); }

Facts facts_of(const RunSpec& spec, const RunData& data, const Mesh& mesh) {
  Facts facts;
  const nlohmann::json identity = data_identity(spec, data.train());
  for (const auto& [key, value] : identity.items()) facts.emplace_back("the identity of " + key, value.dump());
  for (const std::string& held_out : data.held_out()) facts.emplace_back("the identity of held-out data", held_out);
  facts.emplace_back("the mesh (pipeline, data, sequence, tensor)",
                     fmt::format("({}, {}, {}, {})", mesh.pp(), mesh.dp(), mesh.sp(), mesh.tp()));
  return facts;
}

void require_same_facts(Group& world, const Facts& mine) {
  if (world.size() == 1) return;
  const std::string own = text_of(mine);
  const auto facts = [](const std::string& text) {
    return parse_json(text, "the facts of a rank", kJsonOfRanks).get<Facts>();
  };
  compare(world, differences(facts(world.broadcast(own, 0)), facts(own)));
}

void require_same_start(Group& world, const RankResult& read, const Facts& mine) {
  // A file that one rank could not read says nothing about the spec.
  if (world.lowest_with(read.code == ExitCode::infrastructure) >= 0) throw_on_all_ranks(world, read);
  const RankResult of_rank_0 = RankResult::parse(world.broadcast(read.serialize(), 0));
  std::vector<Difference> found;
  if (read.code != of_rank_0.code || read.text != of_rank_0.text)
    found.push_back({"the run spec", shortened(usability(of_rank_0, "")),
                     shortened(usability(read, fmt::format(" (host {})", host_name())))});
  compare(world, found);
  read.value();
  require_same_facts(world, mine);
}

}  // namespace fp
