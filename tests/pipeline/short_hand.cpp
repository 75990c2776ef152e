#include "pipeline/short_hand.h"

#include <sstream>

namespace fp::test {

std::string short_hand(const fp::Schedule& s, int rank) {
  std::string text;
  for (const fp::Action& a : s.ranks[static_cast<size_t>(rank)]) {
    text += std::string(1, "FBWD"[static_cast<int>(a.kind)]);
    if (s.placement.two_way) text += a.pipe == 0 ? 'd' : 'u';
    if (s.placement.chunks > 1) text += static_cast<char>('a' + a.stage / s.placement.ranks);
    text += std::to_string(a.micro_batch) + (a.paired_with_next ? "&" : " ");
  }
  if (!text.empty()) text.pop_back();
  return text;
}

std::string spread(const std::string& order) {
  std::istringstream words(order);
  std::string text;
  for (std::string word; words >> word;) {
    const size_t dash = word.find('-');
    const size_t digit = word.find_first_of("0123456789");
    const int first = std::stoi(word.substr(digit));
    const int last = dash == std::string::npos ? first : std::stoi(word.substr(dash + 1));
    if (dash == std::string::npos) text += word + " ";
    for (int j = first; dash != std::string::npos && j <= last; ++j)
      text += word.substr(0, digit) + std::to_string(j) + " ";
  }
  if (!text.empty()) text.pop_back();
  return text;
}

}  // namespace fp::test
