#include <catch2/catch.hpp>
#include <limits>

#include "compare.h"
#include "operands.h"

using namespace fp;
using namespace fp::test;

TEST_CASE("copy and zero agree with the oracle") {
  for (const DType t : {DType::f32, DType::bf16, DType::i32})
    for (const int64_t n : {1, 7, 64, 1030}) {
      INFO(name_of(t) << " " << n);
      Case c;
      const Operand& source = c.input("source", t, {n}, scaled(1000.0));
      const Operand& copied = c.output("copied", t, {n});
      const Operand& zeroed = c.output("zeroed", t, {n});
      c.check([&](Ops& ops) {
        ops.copy({copied, source});
        ops.zero({zeroed});
      });
      CHECK(copied.expected == source.value);
      CHECK(zeroed.expected == std::vector<double>(static_cast<size_t>(n), 0.0));
    }
}

TEST_CASE("copies to and from the host keep every byte") {
  std::vector<uint8_t> bytes(257), back(257);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 7 + 1);
  for (const Backend& backend : backends()) {
    INFO(backend.name);
    const auto memory = backend.allocate(bytes.size());
    const Tensor t(memory.get(), DType::u8, {257});
    backend.ops->copy_in({t, bytes.data()});
    backend.ops->copy_out({back.data(), t});
    CHECK(back == bytes);
  }
}

TEST_CASE("cast rounds to nearest even and keeps special values") {
  const double infinity = std::numeric_limits<double>::infinity();
  // Ties to even both ways, just above and below a tie, the largest f32 (becomes infinite), signed zeros, subnormals.
  const std::vector<double> special{1.0 + 0x1p-8,
                                    1.0 + 0x3p-8,
                                    1.0 + 0x1p-8 + 0x1p-23,
                                    1.0 + 0x1p-8 - 0x1p-23,
                                    -1.0 - 0x3p-8,
                                    0x1.fffffep127,
                                    infinity,
                                    -infinity,
                                    std::nan(""),
                                    0.0,
                                    -0.0,
                                    0x1.fep127,
                                    0x1.fefffep127,
                                    -0x1.ffp127,
                                    0x1p-126,
                                    0x1.8p-120};
  for (const int64_t n : {int64_t{16}, int64_t{17}, int64_t{1030}}) {
    INFO(n);
    Case c;
    const Operand& x = c.input("x", DType::f32, {n}, [&](double normal, int64_t i) {
      return i < static_cast<int64_t>(special.size()) ? special[static_cast<size_t>(i)] : normal;
    });
    const Operand& narrow = c.output("narrow", DType::bf16, {n});
    const Operand& wide = c.output("wide", DType::f32, {n});
    c.check(
        [&](Ops& ops) {
          ops.cast({narrow, x});
          ops.cast({wide, narrow});
        },
        [&](const Backend&) {
          for (size_t i = 0; i < x.value.size(); ++i) {
            INFO("element " << i << " = " << x.value[i]);
            const double exact = static_cast<float>(bf16(static_cast<float>(x.value[i])));
            CHECK((narrow.result[i] == exact || (std::isnan(exact) && std::isnan(narrow.result[i]))));
            CHECK((wide.result[i] == exact || (std::isnan(exact) && std::isnan(wide.result[i]))));
            CHECK(std::signbit(wide.result[i]) == std::signbit(exact));
          }
        });
  }
}
