// Tensors in parts: every pattern reassembles what was split.
#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "interop/assembly.h"
#include "model_folders.h"

namespace fp {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using test::cut;
using test::FileTensor;
using test::Tensors;

TEST_CASE("fragments cover a dimension and each part exactly once", "[assembly]") {
  uint64_t state = 1;
  const auto draw = [&](uint64_t below) { return static_cast<int64_t>(Philox::mix(state++) % below); };
  for (int i = 0; i < 300; ++i) {
    const int64_t parts = 1 + draw(6);
    std::vector<int64_t> ratios;
    for (int64_t k = draw(4); k > 0; --k) ratios.push_back(1 + draw(5));
    const int64_t extent =
        parts * (1 + draw(3)) * std::max<int64_t>(1, std::accumulate(ratios.begin(), ratios.end(), int64_t{0}));
    const std::vector<Slice> slices = fragments_of(extent, ratios, static_cast<size_t>(parts));
    int64_t end = 0;
    std::vector<int64_t> filled(static_cast<size_t>(parts));
    for (const Slice& s : slices) {
      CHECK(s.begin == end);
      CHECK(s.at == filled[s.part]);
      end += s.count;
      filled[s.part] += s.count;
    }
    CHECK(end == extent);
    CHECK(filled == std::vector<int64_t>(static_cast<size_t>(parts), extent / parts));
  }
  CHECK(fragments_of(7, {}, 2).empty());
  CHECK(fragments_of(12, {2, 1}, 8).empty());
  CHECK(fragments_of(12, {5}, 1).empty());
  CHECK(fragments_of(8, {2, 1, 1}, 2) ==
        std::vector<Slice>{{0, 2, 0, 0}, {2, 2, 1, 0}, {4, 1, 0, 2}, {5, 1, 1, 2}, {6, 1, 0, 3}, {7, 1, 1, 3}});
}

// One tensor in parts, each in its own file.
class Parts {
 public:
  explicit Parts(std::vector<FileTensor> parts) {
    for (size_t i = 0; i < parts.size(); ++i) {
      const fs::path file = folder_ / fmt::format("part{}.safetensors", i);
      test::write_tensors(file, {{"t", parts[i]}});
      sets_.push_back(TensorFiles::open_safetensors(file));
    }
  }
  Assembly as(PartPattern pattern, const std::vector<int64_t>& shape, TensorTransform transform = TensorTransform::same,
              int64_t dim = 0, std::vector<int64_t> ratios = {}) const {
    std::vector<StoredPart> parts;
    for (const TensorFiles& files : sets_) parts.push_back({&files, files.find("t")});
    return {StoredAs{.source = std::make_shared<const NamePattern>("t"),
                     .numbers = {},
                     .transform = transform,
                     .pattern = pattern,
                     .dim = dim,
                     .ratios = std::move(ratios),
                     .shape = shape,
                     .head_dim = 4},
            parts};
  }
  std::string refusal(PartPattern pattern, const std::vector<int64_t>& shape) const {
    try {
      as(pattern, shape).require_equal_parts();
    } catch (const DataError& e) {
      return e.what();
    }
    return "accepted";
  }

 private:
  test::Folder folder_{"assembly"};
  std::vector<TensorFiles> sets_;
};

// The fp32 values 0, 1, 2, ... times `scale`.
FileTensor counting(std::vector<int64_t> shape, float scale = 1) {
  FileTensor t = {"F32", std::move(shape), ""};
  int64_t elements = 1;
  for (const int64_t d : t.shape) elements *= d;
  t.bytes.resize(static_cast<size_t>(elements) * 4);
  for (int64_t i = 0; i < elements; ++i) {
    const float value = scale * static_cast<float>(i);
    std::memcpy(&t.bytes[static_cast<size_t>(i) * 4], &value, 4);
  }
  return t;
}

// Reads a box into the middle of a larger window, whose other elements must keep their NaN.
std::vector<float> read_box(Assembly& a, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  const int64_t height = rows + 2, width = columns + 3;
  std::vector<float> window(static_cast<size_t>(height * width), NAN), box;
  a.read({{row, column}, {rows, columns}}, window.data(), {{height, width}, {1, 2}});
  for (int64_t i = 0; i < height; ++i)
    for (int64_t j = 0; j < width; ++j) {
      const float value = window[static_cast<size_t>(i * width + j)];
      const bool inside = i >= 1 && i <= rows && j >= 2 && j < 2 + columns;
      CHECK(std::isnan(value) != inside);
      if (inside) box.push_back(value);
    }
  return box;
}

// Returns the same box of the logical tensor [rows, columns] for a stored counting() tensor.
std::vector<float> expected_box(TensorTransform transform, int64_t stored_columns, int64_t row, int64_t rows,
                                int64_t column, int64_t columns) {
  std::vector<float> box;
  for (int64_t i = row; i < row + rows; ++i)
    for (int64_t j = column; j < column + columns; ++j) {
      int64_t stored_row = i, stored_column = j;
      if (transform == TensorTransform::transposed) std::swap(stored_row, stored_column);
      if (transform == TensorTransform::rotary_pairs) stored_row = i / 4 * 4 + i % 4 % 2 * 2 + i % 4 / 2;
      box.push_back(static_cast<float>(stored_row * stored_columns + stored_column));
    }
  return box;
}

TEST_CASE("boxes of a fragmented tensor equal those of the whole, under every transform", "[assembly]") {
  const FileTensor whole = counting({8, 12});
  for (const TensorTransform transform :
       {TensorTransform::same, TensorTransform::transposed, TensorTransform::rotary_pairs}) {
    const bool transposed = transform == TensorTransform::transposed;
    const int64_t height = transposed ? 12 : 8, width = transposed ? 8 : 12;
    for (const int dim : {0, 1})
      for (const int64_t n : {1, 2, 4}) {
        CAPTURE(static_cast<int>(transform), dim, n);
        std::vector<FileTensor> pieces;
        const int64_t share = whole.shape[static_cast<size_t>(dim)] / n;
        for (int64_t p = 0; p < n; ++p) pieces.push_back(cut(whole, dim, p * share, share));
        const Parts parts(pieces);
        for (const int64_t said : {int64_t{-1}, int64_t{dim}}) {
          Assembly a = parts.as(PartPattern::fragment, {8, 12}, transform, said);
          for (const auto& [r, nr, c, nc] : {std::array{int64_t{0}, height, int64_t{0}, width},
                                             {int64_t{1}, int64_t{5}, int64_t{2}, int64_t{5}},
                                             {height - 1, int64_t{1}, width - 1, int64_t{1}}})
            CHECK(read_box(a, r, nr, c, nc) == expected_box(transform, 12, r, nr, c, nc));
        }
      }
  }
}

TEST_CASE("sub-fragments are split separately", "[assembly]") {
  const FileTensor whole = counting({8, 3});  // rows 0-3, 4-5 and 6-7 are one each
  std::vector<FileTensor> pieces;
  for (const int64_t p : {0, 1})
    pieces.push_back(
        test::stacked(cut(whole, 0, 2 * p, 2), test::stacked(cut(whole, 0, 4 + p, 1), cut(whole, 0, 6 + p, 1))));
  const Parts parts(pieces);
  Assembly a = parts.as(PartPattern::fragment, {8, 3}, TensorTransform::same, 0, {4, 2, 2});
  CHECK(read_box(a, 0, 8, 0, 3) == expected_box(TensorTransform::same, 3, 0, 8, 0, 3));
  CHECK_THROWS_WITH(parts.as(PartPattern::fragment, {8, 3}, TensorTransform::same, 0, {6, 1, 1}), Contains("6:1:1"));
}

TEST_CASE("average takes the mean of all parts and is exact for equal parts", "[assembly]") {
  const FileTensor one = counting({2, 3}), five = counting({2, 3}, 5), third = counting({2, 3}, 1.0f / 3);
  const Parts different({one, five, counting({2, 3}, 3)});
  Assembly mean = different.as(PartPattern::average, {2, 3});
  CHECK(read_box(mean, 0, 2, 0, 3) == std::vector<float>{0, 3, 6, 9, 12, 15});
  CHECK(read_box(mean, 1, 1, 1, 2) == std::vector<float>{12, 15});
  const Parts equal({third, third, third});
  Assembly same = equal.as(PartPattern::average, {2, 3}), first = equal.as(PartPattern::replicated, {2, 3});
  CHECK(equal_values(same, first));
}

TEST_CASE("rows beyond the vocabulary are ignored as padding", "[assembly]") {
  const FileTensor padded = counting({10, 3});
  for (const int64_t n : {1, 2, 5}) {
    std::vector<FileTensor> pieces;
    for (int64_t p = 0; p < n; ++p) pieces.push_back(cut(padded, 0, p * (10 / n), 10 / n));
    const Parts parts(pieces);
    for (const int64_t rows : {10, 7, 1}) {
      Assembly a = parts.as(PartPattern::vocabulary, {rows, 3});
      CHECK(read_box(a, 0, rows, 0, 3) == expected_box(TensorTransform::same, 3, 0, rows, 0, 3));
    }
    CHECK_THAT(parts.refusal(PartPattern::vocabulary, {11, 3}), Contains("the model needs 11 rows in all"));
    CHECK_THAT(parts.refusal(PartPattern::vocabulary, {10, 4}), Contains("the model needs rows of [10,4]"));
  }
}

TEST_CASE("parts that do not form the tensor are refused with what the model needs", "[assembly]") {
  const FileTensor t = counting({4, 6});
  FileTensor other = t;
  other.bytes.back() ^= 1;
  CHECK(Parts({t, t}).refusal(PartPattern::replicated, {4, 6}) == "accepted");
  CHECK_THAT(Parts({t, t, other}).refusal(PartPattern::replicated, {4, 6}),
             Contains("t is not the same in part0.safetensors and in part2.safetensors"));
  CHECK_THAT(Parts({t, t}).refusal(PartPattern::unique, {4, 6}), Contains("t is in part0.safetensors and in part1"));
  CHECK_THAT(Parts({t}).refusal(PartPattern::unique, {4, 7}), Contains("t is [4,6], the model needs [4,7]"));
  CHECK_THAT(Parts({t, t}).refusal(PartPattern::average, {8, 6}), Contains("t is [4,6] in part0.safetensors"));
  CHECK_THAT(Parts({t, t}).refusal(PartPattern::fragment, {4, 6}),
             Contains("one of 2 equal fragments of [4,6] along dimension 0"));
  CHECK_THAT(Parts({t, counting({4, 5})}).refusal(PartPattern::fragment, {8, 6}),
             Contains("[4,5] in part1.safetensors"));
  FileTensor whole_numbers = t;
  whole_numbers.dtype = "I32";
  CHECK_THAT(Parts({whole_numbers}).refusal(PartPattern::unique, {4, 6}), Contains("dtype I32"));
}

}  // namespace
}  // namespace fp
