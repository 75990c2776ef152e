// Attention at the edges of what a backend may treat as a block: tiles of 16 to 128 queries or keys, padded head sizes.
#include <catch2/catch.hpp>
#include <cmath>

#include "attention_cases.h"
#include "compare.h"

using namespace fp;
using namespace fp::test;

namespace {

AttentionCase square(int64_t length, int64_t d, DType t) {
  AttentionCase a{
      .B = 1, .Tq = length, .Tk = length, .H = 1, .K = 1, .d = d, .spec = {}, .documents = false, .dtype = t};
  a.spec.scale = 1.0 / std::sqrt(static_cast<double>(d));
  return a;
}

}  // namespace

TEST_CASE("attention over lengths around a tile") {
  for_each_compute_type([](DType t) {
    for (const int64_t length : {15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129})
      check_both_passes(square(length, 16, t));
  });
}

TEST_CASE("attention with more and with fewer queries than keys, around a tile") {
  for_each_compute_type([](DType t) {
    for (const int64_t keys : {1, 63, 64, 65, 129}) {
      AttentionCase a = square(66, 16, t);
      a.Tk = keys;
      a.spec.q_offset = 40;
      check_both_passes(a);
    }
  });
}

TEST_CASE("attention of every head size that has a kernel, and of sizes between them") {
  for_each_compute_type([](DType t) {
    for (const int64_t d : {1, 7, 33, 64, 72, 80, 96, 100, 128, 200, 256}) {
      AttentionCase a = square(35, d, t);
      a.H = 2;
      check_both_passes(a);
      a.spec.dropout = {0.2, 11, Purpose::attention_dropout, 5};
      a.spec.k_offset = 3, a.spec.q_offset = 3;  // dropout counters begin within a mask word
      check_both_passes(a);
    }
  });
}

TEST_CASE("attention with completely masked tiles") {
  for_each_compute_type([](DType t) {
    AttentionCase a = square(150, 16, t);
    a.spec.k_offset = 70;  // queries 0..69 see no key, keys beyond position 149 are seen by no query
    check_both_passes(a);
    a.spec.k_offset = 0;
    a.spec.q_offset = 150, a.spec.window = 80;  // keys 0..70 are too far back
    check_both_passes(a);
    a.spec.q_offset = 400;  // all keys are
    check_both_passes(a);
    a = square(150, 16, t);
    a.documents = true;
    a.spec.q_offset = 300;  // and the keys lie in earlier documents
    check_both_passes(a);
  });
}

TEST_CASE("blocksparse attention with blocks of one tile, half a tile and two tiles") {
  for_each_compute_type([](DType t) {
    for (const int64_t block : {32, 64, 128}) {
      AttentionCase a = square(300, 16, t);
      a.H = 2;
      a.spec.block = block, a.spec.local_blocks = 1, a.spec.vertical_stride = 3, a.spec.first_head = 1;
      check_both_passes(a);
    }
  });
}
