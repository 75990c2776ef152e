// for_each_tensor: visits the tensors of a call, and those of structs within it.
#pragma once

#include <type_traits>
#include <utility>

#include "tensor/tensor.h"

namespace fp::calls {
namespace detail {

struct AnyField {
  template <class T>
  operator T() const;  // NOLINT: converts to whatever a field is
};

template <class T, size_t... I>
constexpr bool has_fields(std::index_sequence<I...>) {
  return requires { T{(static_cast<void>(I), AnyField{})...}; };
}

template <class T, size_t N = 14>
constexpr size_t field_count() {
  static_assert(N > 0, "a call with more fields than for_each_tensor knows");
  if constexpr (has_fields<T>(std::make_index_sequence<N>()))
    return N;
  else
    return field_count<T, N - 1>();
}

template <class Struct, class Visit>
void visit_fields(const Struct& s, const Visit& visit) {
  constexpr size_t n = field_count<Struct>();
  static_assert(!has_fields<Struct>(std::make_index_sequence<15>()), "more fields than for_each_tensor knows");
  const auto all = [&](const auto&... fields) { (visit(fields), ...); };
#define FP_FIELDS(N, ...)          \
  if constexpr (n == (N)) {        \
    const auto& [__VA_ARGS__] = s; \
    all(__VA_ARGS__);              \
  }
  FP_FIELDS(1, a)
  FP_FIELDS(2, a, b)
  FP_FIELDS(3, a, b, c)
  FP_FIELDS(4, a, b, c, d)
  FP_FIELDS(5, a, b, c, d, e)
  FP_FIELDS(6, a, b, c, d, e, f)
  FP_FIELDS(7, a, b, c, d, e, f, g)
  FP_FIELDS(8, a, b, c, d, e, f, g, h)
  FP_FIELDS(9, a, b, c, d, e, f, g, h, i)
  FP_FIELDS(10, a, b, c, d, e, f, g, h, i, j)
  FP_FIELDS(11, a, b, c, d, e, f, g, h, i, j, k)
  FP_FIELDS(12, a, b, c, d, e, f, g, h, i, j, k, l)
  FP_FIELDS(13, a, b, c, d, e, f, g, h, i, j, k, l, m)
  FP_FIELDS(14, a, b, c, d, e, f, g, h, i, j, k, l, m, o)
#undef FP_FIELDS
}

}  // namespace detail

template <class Struct, class Visit>
void for_each_tensor(const Struct& call, const Visit& visit) {
  detail::visit_fields(call, [&visit](const auto& field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, Tensor>)
      visit(field);
    else if constexpr (std::is_class_v<Field> && std::is_aggregate_v<Field>)
      for_each_tensor(field, visit);
  });
}

}  // namespace fp::calls
