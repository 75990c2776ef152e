// Combines several lambdas into one visitor for std::visit.
#pragma once

namespace fp {

template <class... Visitors>
struct Overload : Visitors... {
  using Visitors::operator()...;
};
template <class... Visitors>
Overload(Visitors...) -> Overload<Visitors...>;

}  // namespace fp
