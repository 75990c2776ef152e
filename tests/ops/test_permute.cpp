#include <catch2/catch.hpp>
#include <limits>

#include "operands.h"

using namespace fp;
using namespace fp::test;

namespace {

struct PermuteCase {
  Shape x;
  std::vector<int> order;
};

// Nothing moves, rows move, the last dimension moves, dimensions of one and of no element, runs of odd lengths, and
// both directions of an exchange of heads.
const std::vector<PermuteCase> kPermuteCases{{{7}, {0}},
                                             {{5, 33}, {0, 1}},
                                             {{3, 5, 16}, {1, 0, 2}},
                                             {{33, 65}, {1, 0}},
                                             {{32, 48}, {1, 0}},
                                             {{64, 5}, {1, 0}},
                                             {{7, 200, 3}, {1, 2, 0}},
                                             {{2, 3, 5, 7}, {3, 1, 0, 2}},
                                             {{1, 6, 1, 8}, {2, 1, 0, 3}},
                                             {{4, 1, 1}, {2, 1, 0}},
                                             {{3, 0, 4}, {1, 0, 2}},
                                             {{2, 5, 3, 2, 8}, {2, 0, 1, 3, 4}},
                                             {{3, 2, 5, 2, 8}, {1, 0, 2, 3, 4}},
                                             {{2, 3, 2, 3, 7}, {4, 3, 2, 1, 0}},
                                             {{2, 300, 64}, {1, 0, 2}}};

}  // namespace

TEST_CASE("permute agrees with the oracle") {
  for (const DType t : {DType::f32, DType::bf16, DType::i32})
    for (const PermuteCase& p : kPermuteCases) {
      Shape moved;
      for (const int from : p.order) moved.push_back(p.x[from]);
      INFO(name_of(t) << " " << p.x.str() << " -> " << moved.str());
      Case c;
      const Operand& x = c.input("x", t, p.x, scaled(100.0));
      const Operand& y = c.output("y", t, moved);
      const Operand& back = c.output("back", t, p.x);
      std::vector<int> inverse(p.order.size());
      for (size_t i = 0; i < inverse.size(); ++i) inverse[static_cast<size_t>(p.order[i])] = static_cast<int>(i);
      c.check([&](Ops& ops) {
        ops.permute({y, x, p.order});
        ops.permute({back, y, inverse});
      });
      CHECK(back.expected == x.value);
    }
}

TEST_CASE("permute packs the heads of each rank into one piece and restores token order") {
  // The two permutes of Ulysses with P = 2 ranks: heads before the all-to-all, tokens after it. Values are indices.
  const int64_t B = 2, T = 3, P = 2, H = 4, d = 2;
  Case c;
  const Operand& x =
      c.input("x", DType::f32, {B, T, P, H / P, d}, [](double, int64_t i) { return static_cast<double>(i); });
  const Operand& pieces = c.output("pieces", DType::f32, {P, B, T, H / P, d});
  const Operand& arrived =
      c.input("arrived", DType::f32, {P, B, T, H / P, d}, [](double, int64_t i) { return static_cast<double>(i); });
  const Operand& sequence = c.output("sequence", DType::f32, {B, P, T, H / P, d});
  const std::vector<int> to_pieces{2, 0, 1, 3, 4}, to_sequence{1, 0, 2, 3, 4};
  c.check([&](Ops& ops) {
    ops.permute({pieces, x, to_pieces});
    ops.permute({sequence, arrived, to_sequence});
  });
  const auto at = [](int64_t a, int64_t b, int64_t B_, int64_t e, int64_t C) { return (a * B_ + b) * C + e; };
  const int64_t head = H / P * d;
  for (int64_t b = 0; b < B; ++b)
    for (int64_t t = 0; t < T; ++t)
      for (int64_t p = 0; p < P; ++p)
        for (int64_t e = 0; e < head; ++e) {
          // Token t of sample b: on this rank; token p * T + t of the whole sequence, from rank p.
          CHECK(pieces.expected[static_cast<size_t>(at(p * B + b, t, T, e, head))] ==
                static_cast<double>(at(b * T + t, p, P, e, head)));
          CHECK(sequence.expected[static_cast<size_t>(at(b, p * T + t, P * T, e, head))] ==
                static_cast<double>(at(p * B + b, t, T, e, head)));
        }
}

TEST_CASE("find_nonfinite finds the first non-finite element of each row") {
  const double infinity = std::numeric_limits<double>::infinity();
  for_each_compute_type([&](DType t) {
    for (const int64_t columns : {1, 2, 33, 64, 1030, 9000}) {
      INFO(name_of(t) << " " << columns);
      const int64_t rows = 6, middle = columns / 2, last = columns - 1;
      Case c;
      // Rows: finite; the last element; all from the middle on; the largest finite; first and last; -infinity.
      const Operand& x = c.input("x", t, {rows, columns}, [&](double normal, int64_t i) {
        const int64_t row = i / columns, at = i % columns;
        if (row == 1 && at == last) return infinity;
        if (row == 2 && at >= middle) return std::nan("");
        if (row == 3) return 0x1.fep127;
        if (row == 4 && (at == 0 || at == last)) return std::nan("");
        if (row == 5 && at == middle) return -infinity;
        return normal;
      });
      const Operand& first = c.output("first", DType::i32, {rows});
      c.check([&](Ops& ops) { ops.find_nonfinite({first, x}); });
      const auto place = [](int64_t i) { return static_cast<double>(i); };
      CHECK(first.expected == std::vector<double>{-1, place(last), place(middle), -1, 0, place(middle)});
    }
  });
}
