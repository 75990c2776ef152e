#include "exec/gradient_guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/median.h"
#include "base/philox.h"

namespace fp {
namespace {

constexpr int64_t kNarrowsEvery = 16;  // steps

}  // namespace

GradientGuard::GradientGuard(const ModelEnv& env, double limit, const BlockFormat& fewest,
                             std::span<const ParamTable> tables, bool assume_within_limit)
    : env_(&env), limit_(limit), tables_(tables) {
  const ParamTable& table = env.params->table();
  formats_.push_back(fewest);
  if (formats_[0].bits < 8) {
    formats_.push_back(formats_[0]);
    formats_[1].bits = 8;
  }
  exact_bits_ = static_cast<int>(8 * size_of(env.params->options().gradients));
  choices_.assign(table.size(), assume_within_limit ? 0 : formats_.size());
  first_sample_.assign(table.size(), -1);
  for (const ParamUnit& unit : table.units())
    for (ParamId id = unit.first; id <= unit.last; ++id) {
      first_sample_[static_cast<size_t>(id)] = static_cast<int64_t>(sampled_.size());
      sampled_.resize(sampled_.size() + kBlocks);
    }
  const auto rows = static_cast<int64_t>(sampled_.size());
  samples_ = env.alloc_f32({std::max<int64_t>(rows, 1), formats_[0].block});
  env.ops->zero({samples_});
}

void GradientGuard::sample(int unit, const Tensor& whole) {
  const ParamTable& table = env_->params->table();
  const ParamUnit& u = table.units()[static_cast<size_t>(unit)];
  const int64_t block = formats_[0].block, shard = u.elements / table.shards(),
                in_shard = blocks_of(formats_[0], shard);
  Ops& ops = *env_->ops;
  for (ParamId id = u.first; id <= u.last; ++id) {
    const int64_t begin = table[id].offset - u.offset, end = begin + table[id].local_elements();
    if (begin == end) continue;
    const auto block_at = [&](int64_t element) { return element / shard * in_shard + element % shard / block; };
    const int64_t first = block_at(begin), blocks = block_at(end - 1) - first + 1, taken = std::min(blocks, kBlocks);
    for (int64_t i = 0; i < taken; ++i) {
      // A random block of each quarter: blocks at equal distances could all contain an outlier column, or none.
      const int64_t begins = i * blocks / taken, length = (i + 1) * blocks / taken - begins;
      const auto place = std::array{steps_, int64_t{id}, int64_t{table.shard()}, i};
      uint64_t draw = 0;
      for (const int64_t x : place) draw = Philox::mix(draw + 0x9E3779B97F4A7C15 * static_cast<uint64_t>(x + 1));
      const int64_t at = first + begins + static_cast<int64_t>(draw % static_cast<uint64_t>(length));
      const int64_t from = at / in_shard * shard + at % in_shard * block,
                    to = std::min(from + block, (at / in_shard + 1) * shard);
      const int64_t row = first_sample_[static_cast<size_t>(id)] + i, own = std::max(from, begin);
      sampled_[static_cast<size_t>(row)] = {id, own - from, std::min(to, end) - own};
      const Tensor kept = samples_->slice(row, 1).reshaped({block}), part = whole.slice(from, to - from);
      if (to - from < block) ops.zero({kept});
      if (whole.dtype == DType::f32)
        ops.copy({kept.slice(0, to - from), part});
      else
        ops.cast({kept.slice(0, to - from), part});
    }
  }
}

std::vector<FormattedParts> GradientGuard::parts(int unit) const {
  const ParamTable& table = env_->params->table();
  const ParamUnit& u = table.units()[static_cast<size_t>(unit)];
  const auto format_of = [&](size_t choice) {
    return choice < formats_.size() ? std::optional(formats_[choice]) : std::nullopt;
  };
  const size_t most = choice_of_most(unit);
  std::vector<FormattedParts> parts;
  if (most > 0) parts.push_back({format_of(most), {{0, u.elements}}});
  for (size_t choice = most + 1; choice <= formats_.size(); ++choice) {
    FormattedParts p{format_of(choice), {}};
    for (ParamId id = u.first; id <= u.last; ++id)
      if (choices_[static_cast<size_t>(id)] == choice && table[id].local_elements() > 0)
        p.segments.push_back({table[id].offset - u.offset, table[id].local_elements()});
    if (!p.segments.empty()) parts.push_back(std::move(p));
  }
  return parts;
}

// Returns the fewest bits for the whole unit with which at most a quarter of it needs still more, on all ranks of the
// tensor group: their parts of a matrix may differ in size, and what they all hold must be rounded alike.
size_t GradientGuard::choice_of_most(int unit) const {
  const auto fits = [&](size_t choice) {
    return std::ranges::all_of(tables_, [&](const ParamTable& table) {
      const ParamUnit& u = table.units()[static_cast<size_t>(unit)];
      int64_t elements = 0;
      for (ParamId id = u.first; id <= u.last; ++id)
        if (choices_[static_cast<size_t>(id)] > choice) elements += table[id].local_elements();
      return elements <= u.elements / ShardExchange::kLargestShareOfParts;
    });
  };
  size_t choice = 0;
  while (!fits(choice)) ++choice;
  return choice;
}

std::vector<float> GradientGuard::decoded(const BlockFormat& f) const {
  const int64_t rows = samples_->rows(), block = f.block;
  const ArenaTensor packed = env_->arena->alloc(DType::u8, {rows, packed_bytes(f, block)}, MemoryClass::gradients),
                    values = env_->alloc_f32({rows, block});
  env_->ops->quantize({packed, samples_, f});
  env_->ops->sum_quantized({values, packed->reshaped({1, rows, packed_bytes(f, block)}), f});
  std::vector<float> host(static_cast<size_t>(rows * block));
  env_->ops->copy_out({host.data(), values});
  return host;
}

// Returns for each parameter the number of elements, and the sum of their errors in each format.
std::vector<double> GradientGuard::errors() const {
  const size_t each = 1 + formats_.size();
  std::vector<double> sums(choices_.size() * each);
  std::vector<float> exact(static_cast<size_t>(samples_->elements()));
  env_->ops->copy_out({exact.data(), samples_});
  for (size_t f = 0; f < formats_.size(); ++f) {
    const std::vector<float> sent = decoded(formats_[f]);
    for (size_t row = 0; row < sampled_.size(); ++row) {
      const Sampled& s = sampled_[row];
      if (s.id < 0) continue;
      const size_t begin = row * static_cast<size_t>(formats_[f].block) + static_cast<size_t>(s.first);
      double sum = 0, count = 0;
      for (size_t i = begin; i < begin + static_cast<size_t>(s.count); ++i) {
        const float x = std::abs(exact[i]), error = std::abs(sent[i] - exact[i]);
        if (!(x > 0) || !std::isfinite(error)) continue;
        sum += error < x ? error / x : 1;
        ++count;
      }
      double* const of_param = &sums[static_cast<size_t>(s.id) * each];
      of_param[0] = f == 0 ? of_param[0] + count : of_param[0];
      of_param[1 + f] += sum;
    }
  }
  return sums;
}

void GradientGuard::choose(std::span<const double> errors) {
  const ParamTable& table = env_->params->table();
  const size_t each = 1 + formats_.size();
  changes_.clear();
  ++steps_;
  const bool narrows = steps_ % kNarrowsEvery == 0 || std::has_single_bit(static_cast<uint64_t>(steps_));
  std::vector<double> all;
  for (size_t id = 0; id < choices_.size(); ++id) {
    const std::span<const double> of_param = errors.subspan(id * each, each);
    if (of_param[0] == 0) continue;
    all.push_back(of_param[1] / of_param[0]);
    const size_t before = choices_[id];
    size_t choice = narrows ? 0 : before;
    for (; choice < formats_.size(); ++choice)
      if (of_param[1 + choice] <= of_param[0] * limit_ * (choice < before ? kClearlyWithin : 1)) break;
    choices_[id] = choice;
    if (choice != before)
      changes_.push_back({table[static_cast<ParamId>(id)].name, bits_of(before), bits_of(choice), all.back()});
  }
  median_error_ = all.empty() ? 0 : median(std::move(all));
}

void GradientGuard::keep() {
  changes_.clear();
  median_error_ = std::numeric_limits<double>::quiet_NaN();
}

int64_t GradientGuard::widened() const {
  return std::ranges::count_if(choices_, [](size_t c) { return c > 0; });
}

GradientGuardState GradientGuard::state() const {
  GradientGuardState s{steps_, {}, bits_of(0)};
  for (size_t id = 0; id < choices_.size(); ++id)
    if (choices_[id] > 0) s.bits[env_->params->table()[static_cast<ParamId>(id)].name] = bits_of(choices_[id]);
  return s;
}

void GradientGuard::restore(const GradientGuardState& s) {
  steps_ = s.steps;
  for (size_t id = 0; id < choices_.size(); ++id) {
    const auto found = s.bits.find(env_->params->table()[static_cast<ParamId>(id)].name);
    const int bits = found != s.bits.end() ? found->second : s.fewest;
    choices_[id] = 0;
    while (choices_[id] < formats_.size() && bits_of(choices_[id]) < bits) ++choices_[id];
  }
}

std::optional<GradientGuard> make_gradient_guard(const ModelEnv& env, const Groups& groups, double limit,
                                                 std::span<const ParamTable> tables, bool assume_within_limit) {
  if (limit == 0 || !env.formats.gradients || groups.data->size() == 1) return std::nullopt;
  const BlockFormat &last = *env.formats.gradients, &in_node = *env.formats.node_gradients;
  // On one node, sums have only the hop within it.
  const bool one_hop = groups.data_in_node == nullptr || groups.data_across_nodes == nullptr;
  const BlockFormat& only = groups.data_in_node != nullptr ? in_node : last;
  return GradientGuard(env, limit,
                       one_hop                    ? only
                       : in_node.bits < last.bits ? in_node
                                                  : last,
                       tables, assume_within_limit);
}

std::string describe(const std::vector<GradientGuard::Change>& changes) {
  constexpr size_t kNamed = 3;
  std::map<std::pair<int, int>, std::vector<const GradientGuard::Change*>> by_bits;
  for (const GradientGuard::Change& c : changes) by_bits[{c.from, c.to}].push_back(&c);
  std::string text;
  for (const auto& [bits, list] : by_bits) {
    text += fmt::format("{}{} instead of {} bits for ", text.empty() ? "gradients are sent with " : "; ", bits.second,
                        bits.first);
    if (list.size() > kNamed) {
      text += fmt::format("{} parameters", list.size());
      continue;
    }
    for (size_t i = 0; i < list.size(); ++i)
      text += fmt::format("{}{} (error {:.2f})", i > 0 ? ", " : "", list[i]->name, list[i]->error);
  }
  return text;
}

}  // namespace fp
