// Published action lists for p = 4; the papers are named in pipeline/orders.h.
#include <catch2/catch.hpp>

#include "pipeline/short_hand.h"

using namespace fp;
using namespace fp::test;

namespace {

struct Published {
  PipelineSchedule kind;
  int micro_batches, unit_size, rank;
  const char* order;
};

const Published kPublished[] = {
    {PipelineSchedule::gpipe, 8, 0, 2, "F0-7 D0-7"},
    {PipelineSchedule::bfs, 8, 0, 1, "Fa0-7 Fb0-7 Db0-7 Da0-7"},
    {PipelineSchedule::one_f_one_b, 8, 0, 0, "F0-3 D0 F4 D1 F5 D2 F6 D3 F7 D4-7"},
    {PipelineSchedule::one_f_one_b, 8, 0, 1, "F0-2 D0 F3 D1 F4 D2 F5 D3 F6 D4 F7 D5-7"},
    {PipelineSchedule::one_f_one_b, 8, 0, 2, "F0 F1 D0 F2 D1 F3 D2 F4 D3 F5 D4 F6 D5 F7 D6-7"},
    {PipelineSchedule::one_f_one_b, 8, 0, 3, "F0 D0 F1 D1 F2 D2 F3 D3 F4 D4 F5 D5 F6 D6 F7 D7"},
    {PipelineSchedule::interleaved, 8, 0, 0,
     "Fa0-3 Fb0-3 Fa4-6 Db0 Fa7 Db1 Fb4 Db2 Fb5 Db3 Fb6 Da0 Fb7 Da1-3 Db4-7 Da4-7"},
    {PipelineSchedule::interleaved, 8, 0, 1,
     "Fa0-3 Fb0-3 Fa4 Db0 Fa5 Db1 Fa6 Db2 Fa7 Db3 Fb4 Da0 Fb5 Da1 Fb6 Da2 Fb7 Da3 Db4-7 Da4-7"},
    {PipelineSchedule::interleaved, 8, 0, 2,
     "Fa0-3 Fb0-2 Db0 Fb3 Db1 Fa4 Db2 Fa5 Db3 Fa6 Da0 Fa7 Da1 Fb4 Da2 Fb5 Da3 Fb6 Db4 Fb7 Db5-7 Da4-7"},
    {PipelineSchedule::interleaved, 8, 0, 3,
     "Fa0-3 Fb0 Db0 Fb1 Db1 Fb2 Db2 Fb3 Db3 Fa4 Da0 Fa5 Da1 Fa6 Da2 Fa7 Da3 Fb4 Db4 Fb5 Db5 Fb6 Db6 Fb7 Db7 Da4-7"},
    {PipelineSchedule::zb_h1, 8, 0, 0, "F0-3 B0 W0 F4 B1 W1 F5 B2 W2 F6 B3 W3 F7 B4 W4 B5 W5 B6 W6 B7 W7"},
    {PipelineSchedule::zb_h1, 8, 0, 1, "F0-2 B0 F3 B1 W0 F4 B2 W1 F5 B3 W2 F6 B4 W3 F7 B5 W4 B6 W5 B7 W6-7"},
    {PipelineSchedule::zb_h1, 8, 0, 2, "F0 F1 B0 F2 B1 F3 B2 W0 F4 B3 W1 F5 B4 W2 F6 B5 W3 F7 B6 W4 B7 W5-7"},
    {PipelineSchedule::zb_h1, 8, 0, 3, "F0 B0 F1 B1 F2 B2 F3 B3 W0 F4 B4 W1 F5 B5 W2 F6 B6 W3 F7 B7 W4-7"},
    {PipelineSchedule::zb_h2, 8, 0, 0, "F0-6 B0 W0 F7 B1 W1 B2 W2 B3 W3 B4 W4 B5 W5 B6 W6 B7 W7"},
    {PipelineSchedule::zb_h2, 8, 0, 1, "F0-4 B0 F5 B1 F6 B2 W0 F7 B3 W1 B4 W2 B5 W3 B6 W4 B7 W5-7"},
    {PipelineSchedule::zb_h2, 8, 0, 2, "F0-2 B0 F3 B1 F4 B2 F5 B3 F6 B4 W0 F7 B5 W1 B6 W2 B7 W3-7"},
    {PipelineSchedule::zb_h2, 8, 0, 3, "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 W0 F7 B7 W1-7"},
    {PipelineSchedule::zb_v, 8, 0, 0,
     "Fa0-6 Fb0 Bb0 Wb0 Fb1 Bb1 Wb1 Fb2 Bb2 Wb2 Fb3 Bb3 Wb3 Fa7 Ba0 Wa0 Fb4 Bb4 Wb4 Ba1 Wa1 Fb5 Bb5 Wb5 Ba2 Wa2 Fb6 "
     "Bb6 Wb6 Ba3 Wa3 Fb7 Bb7 Wb7 Ba4 Wa4 Ba5 Wa5 Ba6 Wa6 Ba7 Wa7"},
    {PipelineSchedule::zb_v, 8, 0, 3,
     "Fa0 Fb0 Fa1 Fb1 Fa2 Fb2 Fa3 Fb3 Bb0 Wb0 Fa4 Ba0 Wa0 Fb4 Bb1 Wb1 Fa5 Ba1 Wa1 Fb5 Bb2 Wb2 Fa6 Ba2 Wa2 Fb6 Bb3 Wb3 "
     "Fa7 Ba3 Wa3 Fb7 Bb4 Wb4 Ba4 Bb5 Ba5 Bb6 Ba6 Bb7 Ba7 Wa4 Wb5-7 Wa5-7"},
    {PipelineSchedule::interleaved_zb, 8, 0, 0,
     "Fa0-3 Fb0-3 Bb0 Wb0 Fa4 Bb1 Wb1 Fa5 Bb2 Wb2 Fa6 Bb3 Wb3 Fa7 Ba0 Wa0 Fb4 Ba1 Wa1 Fb5 Ba2 Wa2 Fb6 Ba3 Wa3 Fb7 Bb4 "
     "Wb4 Bb5 Wb5 Bb6 Wb6 Bb7 Wb7 Ba4 Wa4 Ba5 Wa5 Ba6 Wa6 Ba7 Wa7"},
    {PipelineSchedule::interleaved_zb, 8, 0, 3,
     "Fa0-3 Fb0 Bb0 Fb1 Bb1 Fb2 Bb2 Fb3 Bb3 Wb0 Fa4 Ba0 Wb1 Fa5 Ba1 Wb2 Fa6 Ba2 Wb3 Fa7 Ba3 Wa0 Fb4 Bb4 Wa1 Fb5 Bb5 "
     "Wa2 Fb6 Bb6 Wa3 Fb7 Bb7 Wb4 Ba4 Wb5 Ba5 Wb6 Ba6 Wb7 Ba7 Wa4-7"},
    {PipelineSchedule::chimera, 8, 0, 0, "Fd0 Fd1 Fu0 Du0 Fu1 Du1 Dd0 Fd2 Dd1 Fd3 Fu2 Du2 Fu3 Du3 Dd2 Dd3"},
    {PipelineSchedule::chimera, 8, 0, 1, "Fd0 Fu0 Fd1 Fu1 Du0 Dd0 Du1 Dd1 Fd2 Fu2 Fd3 Fu3 Du2 Dd2 Du3 Dd3"},
    {PipelineSchedule::bitpipe, 8, 0, 0,
     "Fda0-1 Fua0 Fub0 Fua1 Fub1 Fdb0 Ddb0 Fdb1 Ddb1 Dub0 Dua0 Dub1 Dua1 Dda0 Fda2 Dda1 Fda3 Fua2 Fub2 Fua3 Fub3 Fdb2 "
     "Ddb2 Fdb3 Ddb3 Dub2 Dua2 Dub3 Dua3 Dda2 Dda3"},
    {PipelineSchedule::bitpipe, 8, 0, 1,
     "Fda0 Fua0 Fda1 Fua1 Fub0 Fdb0 Fub1 Fdb1 Ddb0 Dub0 Ddb1 Dub1 Dua0 Dda0 Dua1 Dda1 Fda2 Fua2 Fda3 Fua3 Fub2 Fdb2 "
     "Fub3 Fdb3 Ddb2 Dub2 Ddb3 Dub3 Dua2 Dda2 Dua3 Dda3"},
    {PipelineSchedule::zeropp, 8, 0, 0,
     "Fa0-7 Fb0-6 Bb0 Wb0 Fb7 Bb1 Wb1 Bb2 Wb2 Bb3 Wb3 Bb4 Wb4 Bb5 Wb5 Bb6 Wb6 Bb7 Wb7 Ba0 Wa0 Ba1 Wa1 Ba2 Wa2 Ba3 Wa3 "
     "Ba4 Wa4 Ba5 Wa5 Ba6 Wa6 Ba7 Wa7"},
    {PipelineSchedule::zeropp, 8, 0, 3,
     "Fa0-7 Fb0 Bb0 Fb1 Bb1 Fb2 Bb2 Fb3 Bb3 Fb4 Bb4 Fb5 Bb5 Fb6 Bb6 Wb0 Fb7 Bb7 Wb1 Ba0 Wb2 Ba1 Wb3 Ba2 Wb4 Ba3 Wb5 "
     "Ba4 Wb6 Ba5 Wb7 Ba6 Wa0 Ba7 Wa1-7"},
    {PipelineSchedule::zeropp, 8, 4, 0,
     "Fa0-3 Fb0-3 Bb0 Wb0 Bb1 Wb1 Bb2 Wb2 Bb3 Wb3 Ba0 Wa0 Ba1 Wa1 Ba2 Wa2 Ba3 Wa3 Fa4-7 Fb4-7 Bb4 Wb4 Bb5 Wb5 Bb6 Wb6 "
     "Bb7 Wb7 Ba4 Wa4 Ba5 Wa5 Ba6 Wa6 Ba7 Wa7"},
    {PipelineSchedule::zeropp, 8, 4, 3,
     "Fa0-3 Fb0 Bb0 Fb1 Bb1 Fb2 Bb2 Fb3 Bb3 Wb0 Ba0 Wb1 Ba1 Wb2 Ba2 Wb3 Ba3 Wa0-3 Fa4-7 Fb4 Bb4 Fb5 Bb5 Fb6 Bb6 Fb7 "
     "Bb7 Wb4 Ba4 Wb5 Ba5 Wb6 Ba6 Wb7 Ba7 Wa4-7"},
    {PipelineSchedule::wave, 4, 0, 0, "Fa0-3 Fb0 Db0 Fb1 Db1 Fb2 Db2 Fb3 Db3 Da0-3"},
    {PipelineSchedule::wave, 4, 0, 1, "Fa0-3 Fb0-1 Db0 Fb2 Db1 Fb3 Db2-3 Da0-3"},
    {PipelineSchedule::wave, 4, 0, 2, "Fa0-2 Fb0 Fa3 Fb1-3 Db0 Db1 Da0 Db2 Da1 Db3 Da2-3"},
    {PipelineSchedule::wave, 4, 0, 3, "Fa0 Fb0 Fa1 Fb1 Fa2 Fb2 Fa3 Fb3 Db0 Da0 Db1 Da1 Db2 Da2 Db3 Da3"},
    {PipelineSchedule::dualpipe, 8, 0, 0, "Fd0-2 Fu0 Bu0 Wu0 Fu1 Fd3&Du1 Fu2&Dd0 Du2 Fu3&Dd1 Du3 Bd2 Wd2 Bd3 Wd3"},
    {PipelineSchedule::dualpipe, 8, 0, 1, "Fd0 Fu0 Fd1 Fu1 Fd2 Du0 Fu2&Dd0 Fd3&Du1 Fu3&Dd1 Du2 Dd2 Bu3 Bd3 Wu3 Wd3"},
    {PipelineSchedule::dualpipev, 8, 0, 3,
     "Fa0 Fb0 Fa1 Fb1 Fa2 Fb2 Fa3 Fb3 Fa4 Db0 Fb4&Da0 Fa5&Db1 Fb5&Da1 Fa6&Db2 Fb6&Da2 Fa7&Db3 Fb7&Da3 Db4 Da4 Db5 Da5 "
     "Bb6 Ba6 Bb7 Ba7 Wb6 Wa6 Wb7 Wa7"},
};

}  // namespace

TEST_CASE("generated orders equal those in the papers", "[pipeline]") {
  for (const Published& x : kPublished) {
    CAPTURE(name_of(x.kind), x.rank);
    const Schedule s =
        generate({.kind = x.kind, .ranks = 4, .micro_batches = x.micro_batches, .unit_size = x.unit_size});
    CHECK(short_hand(s, x.rank) == spread(x.order));
  }
}

TEST_CASE("the two pipes of a two-way schedule are mirror images", "[pipeline]") {
  for (const PipelineSchedule kind : {PipelineSchedule::chimera, PipelineSchedule::bitpipe, PipelineSchedule::dualpipe})
    for (const int p : {2, 4, 6, 8}) {
      CAPTURE(name_of(kind), p);
      const Schedule s = generate({.kind = kind, .ranks = p, .micro_batches = 4 * p});
      for (int r = 0; r < p; ++r) {
        std::vector<Action> mirrored = s.ranks[static_cast<size_t>(p - 1 - r)];
        for (Action& a : mirrored) a.pipe ^= 1;
        CHECK(s.ranks[static_cast<size_t>(r)] == mirrored);
      }
    }
}
