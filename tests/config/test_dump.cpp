// The dump is exact: all values of fields survive a round trip bit for bit.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <set>

#include "base/philox.h"
#include "config/fields/decode.h"
#include "config/fields/overload.h"
#include "config/load.h"
#include "config/run_spec_fields.h"

namespace fp {

namespace {

class Random {
 public:
  explicit Random(uint64_t seed) : key_(Philox::key(seed, Purpose::sampling)) {}
  uint64_t bits() {
    const auto b = Philox::block({count_++, 0, 0, 0}, key_);
    return (uint64_t{b[0]} << 32) | b[1];
  }
  size_t below(size_t n) { return static_cast<size_t>(bits() % n); }

 private:
  Philox::Key key_;
  uint32_t count_ = 0;
};

double random_double(Random& random, const FieldInfo& info) {
  while (true) {
    double v;
    const uint64_t bits = random.bits();
    std::memcpy(&v, &bits, sizeof v);
    if (info.min >= 0) v = std::abs(v);
    if (info.max <= 1) v = std::ldexp(v, -std::ilogb(v) - 1 - static_cast<int>(random.below(40)));
    if (std::isnormal(v) && v > info.min && v < info.max) return v;
  }
}

template <class Integer>
Integer random_integer(Random& random, const FieldInfo& info) {
  const auto low = static_cast<int64_t>(std::max(info.min, -1e15));
  const auto high = static_cast<int64_t>(std::min(info.max, 1e15));
  return static_cast<Integer>(low + static_cast<int64_t>(random.bits() % static_cast<uint64_t>(high - low + 1)));
}

std::string random_text(Random& random) {
  static const std::vector<std::string> pieces = {"a",  "7",   "\"",   "\\", " ",  "#",        ": ", "-",   "'",
                                                  "\n", "\t",  "{",    "é",  "汉", "🦙",     "&",  "*",   "true",
                                                  "~",  "1e3", "null", "!",  "|",  "\x01\x1b", "\r", "...", "%",
                                                  ",",  "]",   "?",    "@",  "`",  "/x.y",     "=",  "<<",  ".inf"};
  std::string s;
  for (size_t n = random.below(6); n > 0; --n) s += pieces[random.below(pieces.size())];
  return s;
}

void randomize(const Fields& fields, Random& random) {
  for (const Field& f : fields.list())
    std::visit(
        Overload{[&](bool* v) { *v = random.below(2) == 1; }, [&](int* v) { *v = random_integer<int>(random, f.info); },
                 [&](int64_t* v) { *v = random_integer<int64_t>(random, f.info); },
                 [&](uint64_t* v) { *v = random.bits(); }, [&](double* v) { *v = random_double(random, f.info); },
                 [&](std::optional<double>* v) {
                   v->reset();
                   if (random.below(2) == 1) *v = random_double(random, f.info);
                 },
                 [&](std::string* v) {
                   const auto choices = choices_of(f);
                   *v = choices.empty() ? random_text(random) : std::string(choices[random.below(choices.size())]);
                 },
                 [&](std::vector<int64_t>* v) {
                   v->resize(random.below(4));
                   for (int64_t& x : *v) x = random_integer<int64_t>(random, f.info);
                 },
                 [&](std::vector<double>* v) {
                   v->resize(random.below(4));
                   for (double& x : *v) x = random_double(random, f.info);
                 },
                 [&](std::vector<std::string>* v) {
                   v->resize(random.below(4));
                   for (std::string& x : *v) x = std::string(f.info.choices[random.below(f.info.choices.size())]);
                 },
                 [&](const EnumRef& e) { e.set(random.below(e.names.size())); },
                 [&](const EnumListRef& e) {
                   std::vector<size_t> indices(random.below(4));
                   for (size_t& i : indices) i = random.below(e.names.size());
                   e.set(indices);
                 },
                 [&](const SectionRef& s) { randomize(s.fields(), random); },
                 [&](const SectionListRef& l) {
                   l.resize(random.below(4));
                   for (size_t i = 0; i < l.size(); ++i) randomize(l.item(i), random);
                 }},
        f.ref);
}

}  // namespace

TEST_CASE("random values in every field survive dump and parse", "[config]") {
  Random random(7);
  for (int round = 0; round < 200; ++round) {
    RunSpec spec;
    randomize(fields_of(spec), random);
    spec.parallel.open.clear();  // keys that it names are omitted from the dump
    const std::string text = dump(spec);
    Problems problems;
    const YamlNode root = parse_yaml(text, "dump", problems);
    RunSpec back;
    Written written;
    decode(root, fields_of(back), written, problems);
    INFO(text);
    REQUIRE_NOTHROW(problems.throw_if_any());
    REQUIRE(back == spec);
    REQUIRE(dump(back) == text);
  }
}

TEST_CASE("the dump of a resolved spec parses to an equal spec", "[config]") {
  const RunSpec spec = parse_run_spec(R"(
model: {preset: phi-3-mini-128k, vocab: 32064, dropout_ffn: 0.1}
data: {train: [{path: data/a, weight: 0.1}, {path: "data/b c"}], mask_documents: true}
train: {micro_batch: 2, ramp_start_batch: 2, ramp_increment: 2, ramp_samples: 1e6}
)",
                                      "run.yaml");
  const RunSpec back = parse_run_spec(dump(spec), "dump");
  CHECK(back == spec);
  CHECK(dump(back) == dump(spec));
}

TEST_CASE("flatten returns every key of the dump with its value as for --set", "[config]") {
  RunSpec spec = parse_run_spec(
      "model: {preset: gpt2}\n"
      "data: {train: [{path: data/a, weight: 0.1}, {path: \"data/b c\"}]}\n"
      "parallel: {auto: [tensor]}\n",
      "run.yaml");
  std::vector<std::string> sets;
  std::vector<std::string> keys;
  for (const auto& [key, value] : flatten(spec)) {
    keys.push_back(key);
    if (key.starts_with("data.")) sets.push_back(key + "=" + value);
  }
  CHECK(std::count(keys.begin(), keys.end(), "data.train[1].path") == 1);
  CHECK(std::count(keys.begin(), keys.end(), "watchdog.step_s") == 1);
  CHECK(std::count(keys.begin(), keys.end(), "parallel.tensor") == 0);  // open: it has no value yet
  CHECK(parse_run_spec("model: {preset: gpt2}", "", sets).data == spec.data);
  std::erase_if(keys, [](const std::string& key) { return key.find('[') != std::string::npos; });
  CHECK(std::set<std::string>(keys.begin(), keys.end()).size() == keys.size());
}

}  // namespace fp
