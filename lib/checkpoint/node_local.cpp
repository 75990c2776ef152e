#include "checkpoint/node_local.h"

#include <unistd.h>

#include <array>
#include <regex>

#include "base/error.h"
#include "checkpoint/read_back.h"
#include "io/filesystem.h"
#include "io/private_folder.h"
#include "io/storage.h"

namespace fp {
namespace {

std::string hash_of(const std::string& text) { return hash_bytes(text.data(), text.size()); }

// On a disk that nodes share, each sees the others' folders, but not whether they are locked.
std::string host_digits() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return hash_of(name.data()).substr(0, 8);
}

bool is_rank_file(const std::string& name) {
  static const std::regex pattern(R"(rank-\d{5,}\.h5)");
  return std::regex_match(name, pattern);
}

}  // namespace

NodeLocal::NodeLocal(const std::filesystem::path& base, const std::filesystem::path& checkpoints, int rank, int ranks)
    : base_(base) {
  const std::string run = "fptrain-" + hash_of(std::filesystem::absolute(checkpoints).string());
  const std::string here = fmt::format("{}-{}-", run, host_digits());
  prefix_ = fmt::format("{}{:05d}-", here, rank);
  try {
    const PrivateFolder trial(base_, prefix_);
  } catch (const ConfigError& e) {
    throw ConfigError(fmt::format("checkpoint.node_local: {}", e.what()));
  }
  // Each folder of an earlier start with more ranks is removed by exactly one rank.
  const std::string by_older_versions = fmt::format("{}-{:05d}", run, rank);
  const std::regex of_this_host(here + R"((\d{5,9})-[0-9a-f]{32})");
  const auto is_left = [&](const std::string& name) {
    std::smatch match;
    if (name == by_older_versions) return true;
    return std::regex_match(name, match, of_this_host) && std::stoi(match[1]) % ranks == rank;
  };
  remove_left_folders(base_, is_left, is_rank_file);
}

RankFile NodeLocal::write_rank_file(const std::filesystem::path& folder, const ParamTable& table, BlockSource& source,
                                    int rank) const {
  const std::string name = rank_file_name(rank);
  PrivateFolder local(base_, prefix_);
  const std::filesystem::path path = local.path() / name;
  storage::announce(storage::Step::create_file, path);
  h5::File file = h5::File::create(local.inside(name), path);
  local.remove();
  const OpenRankFile written = fp::write_rank_file(std::move(file), table, source, rank);
  storage::copy_file(written.file.get(), path, folder / name);
  require_same(folder / name, written.record.file);
  return written.record;
}

}  // namespace fp
