// Orders of the kinds against the literature's: times and peaks at many sizes, and lists written out for p = 4, m = 8.
#include <algorithm>
#include <catch2/catch.hpp>

#include "base/error.h"
#include "schedule/simulate.h"

using namespace fp;

namespace {

int peak(const Timing& t) { return *std::max_element(t.peak_chunks.begin(), t.peak_chunks.end()); }

// What is known of a kind at m = p, 2p, 4p; 0: cannot be.
struct Known {
  const char* kind;
  int chunks;
  int makespan[3][3], peak[3][3];  // of p = 2, 4, 8
};

// Chunk units, F = B = W = 1.
const Known kKnown[] = {
    {"gpipe", 1, {{9, 15, 27}, {21, 33, 57}, {45, 69, 117}}, {{2, 4, 8}, {4, 8, 16}, {8, 16, 32}}},
    {"1f1b", 1, {{9, 15, 27}, {21, 33, 57}, {45, 69, 117}}, {{2, 2, 2}, {4, 4, 4}, {8, 8, 8}}},
    {"interleaved", 2, {{15, 27, 51}, {33, 57, 105}, {69, 117, 213}}, {{4, 5, 5}, {8, 11, 11}, {16, 23, 23}}},
    {"bfs", 2, {{15, 27, 51}, {33, 57, 105}, {69, 117, 213}}, {{4, 8, 16}, {8, 16, 32}, {16, 32, 64}}},
    {"zb-h1", 1, {{7, 13, 25}, {15, 27, 51}, {31, 55, 103}}, {{2, 2, 2}, {4, 4, 4}, {8, 8, 8}}},
    {"zb-h2", 1, {{7, 13, 25}, {15, 27, 51}, {31, 55, 103}}, {{2, 3, 3}, {4, 7, 7}, {8, 15, 15}}},
    {"zb-v", 2, {{14, 25, 49}, {30, 51, 99}, {62, 103, 199}}, {{4, 4, 4}, {8, 8, 8}, {16, 16, 16}}},
    {"interleaved-zb", 2, {{13, 25, 49}, {27, 51, 99}, {55, 103, 199}}, {{4, 4, 4}, {8, 8, 8}, {16, 16, 16}}},
    {"chimera", 1, {{6, 12, 24}, {16, 30, 58}, {36, 66, 126}}, {{2, 2, 2}, {4, 4, 4}, {8, 8, 8}}},
    {"bitpipe", 2, {{12, 24, 48}, {28, 54, 106}, {60, 114, 222}}, {{4, 4, 4}, {8, 8, 8}, {16, 16, 16}}},
    {"dualpipe", 1, {{0, 12, 24}, {0, 25, 49}, {0, 51, 99}}, {{0, 3, 3}, {0, 5, 5}, {0, 9, 9}}},
    {"dualpipev", 2, {{0, 25, 49}, {0, 51, 99}, {0, 103, 199}}, {{0, 5, 5}, {0, 9, 9}, {0, 17, 17}}},
};

}  // namespace

TEST_CASE("times and peaks are those of the literature", "[schedule]") {
  for (const Known& k : kKnown)
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 3; ++j) {
        const int p = 2 << i, m = p << j;
        if (k.makespan[i][j] == 0) continue;
        CAPTURE(k.kind, p, m);
        const Timing t = simulate(generate({.kind = k.kind, .ranks = p, .micro_batches = m}), {});
        CHECK(t.makespan == k.makespan[i][j]);
        CHECK(peak(t) == k.peak[i][j]);
        CHECK(t.work == 3 * m * k.chunks);
      }
}
