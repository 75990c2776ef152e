#include "config/cluster/cluster.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/op_list.h"
#include "config/cluster/cluster_fields.h"
#include "config/fields/check_values.h"
#include "config/fields/decode.h"
#include "config/validate.h"
#include "config/yaml/document.h"

namespace fp {
namespace {

constexpr DocumentKind kCluster = {"cluster description", "has name, device, memory_gib, profiles and more"};

std::string item(const std::string& list, size_t i) { return fmt::format("{}[{}]", list, i); }

// Checks that no two items have the same purpose. `what` describes an item's purpose, which its `keys` determine.
template <class T, class What>
void check_distinct(const std::vector<T>& list, const std::string& path, const std::vector<std::string>& keys,
                    Checker& check, What what) {
  std::map<std::string, size_t> first;  // by purpose
  for (size_t i = 0; i < list.size(); ++i) {
    const auto [known, is_new] = first.try_emplace(what(list[i]), i);
    if (is_new) continue;
    std::vector<std::string> looked_at = {item(path, i)};
    for (const std::string& key : keys)
      for (const size_t k : {i, known->second}) looked_at.push_back(item(path, k) + "." + key);
    check.require(false, looked_at,
                  fmt::format("{} is for {}, as {} is", item(path, i), known->first, item(path, known->second)));
  }
}

void check_products(const NodeProfile& p, const std::string& path, Checker& check) {
  const std::string list = path + ".products";
  std::vector<std::string> looked_at = {list, path};
  for (size_t i = 0; i < p.products.size(); ++i)
    for (const char* key : {".op", ".compute"}) looked_at.push_back(item(list, i) + key);
  check.require(!p.products.empty(), {list, path},
                fmt::format("{} must have the three products of at least one compute type: linear, "
                            "linear_backward_input and linear_backward_weight",
                            list));
  for (const char* compute : {"bf16", "fp32"}) {
    if (std::ranges::none_of(p.products, [&](const ProductRates& r) { return r.compute == compute; })) continue;
    for (const char* op : {FP_PRODUCTS(FP_OP_NAME)})
      check.require(
          std::ranges::any_of(p.products, [&](const ProductRates& r) { return r.compute == compute && r.op == op; }),
          looked_at, fmt::format("{} has {} products but no {} among them", list, compute, op));
  }
  check_distinct(p.products, list, {"op", "compute"}, check,
                 [](const ProductRates& r) { return fmt::format("{} in {}", r.op, r.compute); });
}

void check_ops(const NodeProfile& p, const std::string& path, Checker& check) {
  const std::string list = path + ".ops";
  for (size_t i = 0; i < p.ops.size(); ++i) {
    const std::string& c = p.ops[i].compute;
    check.require(
        c.empty() || c == "bf16" || c == "fp32", {item(list, i) + ".compute", item(list, i)},
        fmt::format("{}.compute: '{}' is not known; legal: bf16, fp32, or empty for both", item(list, i), shown(c)));
  }
  check_distinct(p.ops, list, {"op", "compute"}, check,
                 [](const OpRates& r) { return r.compute.empty() ? r.op : fmt::format("{} in {}", r.op, r.compute); });
}

void check_links(const NodeProfile& p, const std::string& path, const std::string& between, const std::string& why,
                 Checker& check) {
  const auto has = [&](std::string_view kind) {
    return std::ranges::any_of(p.links, [&](const LinkRates& l) { return l.between == between && l.kind == kind; });
  };
  if (has("any")) return;
  std::vector<std::string_view> missing;
  for (const char* kind : {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send", "host"})
    if (!has(kind)) missing.push_back(kind);
  check.require(missing.empty(), {path + ".links", path},
                fmt::format("{}.links, {}, must have rates between {}: kind any, or also {}", path, why, between,
                            joined(missing)));
}

void check_profiles(const ClusterSpec& s, Checker& check) {
  check.require(!s.profiles.empty(), {"profiles"}, "profiles must have at least one entry");
  for (size_t i = 0; i < s.profiles.size(); ++i) {
    const NodeProfile& p = s.profiles[i];
    const std::string path = item("profiles", i);
    check.require(i == 0 || p.ranks > s.profiles[i - 1].ranks, {path + ".ranks", path},
                  fmt::format("{}.ranks = {} must be greater than in the profile before it", path, p.ranks));
    check.require(p.ranks <= s.ranks_per_node, {path + ".ranks", path, "ranks_per_node"},
                  fmt::format("{}.ranks = {} is over ranks_per_node = {}", path, p.ranks, s.ranks_per_node));
    check_products(p, path, check);
    check_ops(p, path, check);
    if (p.ranks > 1) check_links(p, path, "ranks", fmt::format("for {} ranks of a node", p.ranks), check);
    if (s.nodes != 1 && p.ranks == s.ranks_per_node) check_links(p, path, "nodes", "of several nodes", check);
    check_distinct(p.links, path + ".links", {"between", "kind"}, check,
                   [](const LinkRates& l) { return fmt::format("{} between {}", l.kind, l.between); });
  }
}

void check_cluster(const ClusterSpec& spec, Checker& check) {
  check.require(!spec.name.empty(), {"name"}, "name must not be empty");
  check.require(spec.reserved_gib <= spec.memory_gib, {"reserved_gib", "memory_gib"},
                fmt::format("reserved_gib = {} is over memory_gib = {}", spec.reserved_gib, spec.memory_gib));
  check_profiles(spec, check);
}

}  // namespace

EnumNames names_of(ClusterDevice) {
  static constexpr std::string_view kNames[] = {"cuda", "cpu"};
  return kNames;
}

ClusterSpec parse_cluster(std::string_view text, const std::string& name) {
  Problems problems;
  const YamlNode root = parse_document(text, name, kCluster, Lines::shown);
  ClusterSpec spec;
  Written written;
  decode(root, fields_of(spec), written, problems);
  Checker check(written, name, problems);
  check_cluster(spec, check);
  problems.throw_if_any();
  return spec;
}

ClusterSpec load_cluster(const std::filesystem::path& path) {
  return parse_cluster(read_document(path, kCluster), path.string());
}

void validate(const ClusterSpec& spec) {
  ClusterSpec checked = spec, defaults;
  const Place place{"cluster " + spec.name};
  Problems problems;
  Written written;
  check_values(fields_of(checked), fields_of(defaults), place, written, problems);
  Checker check(written, place.source, problems);
  check_cluster(checked, check);
  problems.throw_if_any();
}

}  // namespace fp
