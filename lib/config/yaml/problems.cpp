#include "config/yaml/problems.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"

namespace fp {

std::string Place::str() const { return line > 0 ? fmt::format("{}:{}:{}", source, line, column) : source; }

void Problems::add(Place place, std::string message) { list_.push_back({std::move(place), std::move(message)}); }

void Problems::append(const Problems& others) { list_.insert(list_.end(), others.list_.begin(), others.list_.end()); }

void Problems::throw_if_any() const {
  if (list_.empty()) return;
  std::vector<Problem> sorted = list_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Problem& a, const Problem& b) {
    return std::tie(a.place.source, a.place.line, a.place.column) <
           std::tie(b.place.source, b.place.line, b.place.column);
  });
  std::string text = sorted.size() > 1 ? fmt::format("{} problems:", sorted.size()) : "";
  constexpr size_t kShown = 50;
  for (size_t i = 0; i < sorted.size() && i < kShown; ++i) {
    const std::string place = sorted[i].place.str();
    text += fmt::format("{}{}{}{}", text.empty() ? "" : "\n  ", place, place.empty() ? "" : ": ", sorted[i].message);
  }
  if (sorted.size() > kShown) text += fmt::format("\n  ... and {} more", sorted.size() - kShown);
  throw ConfigError(text);
}

namespace {

// Returns the optimal string alignment distance.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i)
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

// True if one word contains the other, as "n_layers" contains "layers".
bool contains_either_way(std::string_view a, std::string_view b) {
  const auto& [small, large] = std::minmax(a, b, [](auto x, auto y) { return x.size() < y.size(); });
  return small.size() >= 3 && large.find(small) != std::string_view::npos;
}

// Words of up to three letters are alike only if they begin with the same letter ("gpu" is not a typo of "cpu"), or
// have the same letters.
bool too_short_to_be_alike(std::string_view a, std::string_view b) {
  if (std::max(a.size(), b.size()) > 3 || a.empty() || b.empty()) return false;
  return a.front() != b.front() && !std::ranges::is_permutation(a, b);
}

}  // namespace

std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates) {
  constexpr size_t kLongestWord = 64;  // no legal word is longer, and the distance takes quadratic time
  if (word.size() > kLongestWord) return {};
  std::string_view best;
  size_t best_distance = SIZE_MAX;
  for (const std::string_view c : candidates) {
    if (too_short_to_be_alike(word, c)) continue;
    size_t distance = edit_distance(word, c);
    const size_t limit = std::max<size_t>(1, std::max(word.size(), c.size()) / 3);
    if (distance > limit && contains_either_way(word, c)) distance = limit;
    if (distance <= limit && distance < best_distance) {
      best = c;
      best_distance = distance;
    }
  }
  return best;
}

std::string joined(const std::vector<std::string_view>& words) {
  std::string s;
  for (const auto w : words) s += (s.empty() ? "" : ", ") + std::string(w);
  return s;
}

}  // namespace fp
