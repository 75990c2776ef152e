// Malformed run specs, made by mutating a legal one. Each must give a ConfigError with its place, and none may crash.
#include <catch2/catch.hpp>
#include <cstdio>

#include "base/philox.h"
#include "config/load.h"
#include "config/run_spec_fields.h"
#include "expect.h"

namespace fp {

namespace {

struct Mutant {
  std::string what;
  std::string text;
};

const std::string& good_spec() {
  static const std::string text =
      dump(parse_run_spec("model: {preset: phi-3-small-8k}\ndata: {train: [{path: a}]}", "good"));
  return text;
}

struct Leaf {
  std::string path;
  Field field;
};

void collect(const Fields& fields, const std::string& path, std::vector<Leaf>& leaves) {
  for (const Field& f : fields.list()) {
    const std::string here = path.empty() ? std::string(f.key) : path + "." + std::string(f.key);
    if (const auto* section = std::get_if<SectionRef>(&f.ref))
      collect(section->fields(), here, leaves);
    else
      leaves.push_back({here, f});
  }
}

// Returns "a: {b: {c: text}}" for "a.b.c" and text.
std::string nested(const std::string& path, const std::string& text) {
  const size_t dot = path.find('.');
  return dot == std::string::npos ? path + ": " + text
                                  : path.substr(0, dot) + ": {" + nested(path.substr(dot + 1), text) + "}";
}

std::vector<Mutant> mutants_of_fields() {
  RunSpec spec;
  std::vector<Leaf> leaves;
  collect(fields_of(spec), "", leaves);
  std::vector<Mutant> mutants;
  const auto add = [&](const Leaf& l, const std::string& text) {
    mutants.push_back({l.path + " = " + text, nested(l.path, text)});
  };
  for (const Leaf& l : leaves) {
    mutants.push_back({"misspelt " + l.path, nested(l.path + "x", "1")});
    add(l, "{a: 1}");
    const bool text = std::holds_alternative<std::string*>(l.field.ref) || std::holds_alternative<EnumRef>(l.field.ref);
    const bool list = std::holds_alternative<SectionListRef>(l.field.ref) ||
                      std::holds_alternative<EnumListRef>(l.field.ref) ||
                      std::holds_alternative<std::vector<int64_t>*>(l.field.ref) ||
                      std::holds_alternative<std::vector<double>*>(l.field.ref);
    const bool boolean = std::holds_alternative<bool*>(l.field.ref);
    if (!choices_of(l.field).empty()) add(l, "nonsense");
    if (text) add(l, "12");
    if (boolean) add(l, "yes");
    if (list) add(l, "3");
    if (!text && !list && !boolean) {
      for (const char* bad : {".nan", "-.inf", "1e999", "'1'", "0x10"}) add(l, bad);
      if (std::isfinite(l.field.info.min)) add(l, l.field.info.above_min ? "0" : "-1");
      if (std::isfinite(l.field.info.max)) add(l, l.field.info.below_max ? "1" : "99999999999999999999999");
    }
  }
  return mutants;
}

std::string repeated(const std::string& s, size_t n) {
  std::string out;
  for (size_t i = 0; i < n; ++i) out += s;
  return out;
}

std::vector<Mutant> mutants_of_syntax() {
  std::vector<Mutant> m = {
      {"empty", ""},
      {"white space", " \n\n  \n"},
      {"only a comment", "# nothing\n"},
      {"null document", "~"},
      {"a document marker", "---\n"},
      {"text", "hello"},
      {"a list", "- model\n- data\n"},
      {"a number", "3"},
      {"two documents", "model: {layers: 2}\n---\nmodel: {layers: 3}\n"},
      {"anchor", "model: &m {layers: 2}\n"},
      {"anchor and alias", "train: {steps: &n 5}\ncheckpoint: {every: *n}\n"},
      {"undefined alias", "train: {steps: *n}\n"},
      {"recursive alias", "model: &m {rope: *m}\n"},
      {"merge key", "model: {<<: {layers: 2}}\n"},
      {"tag", "train: {steps: !!int 5}\n"},
      {"foreign tag", "train: !!python/object:os.system {steps: 5}\n"},
      {"duplicate section", "train: {steps: 5}\ntrain: {steps: 6}\n"},
      {"duplicate key", "train:\n  steps: 5\n  steps: 5\n"},
      {"key that is a list", "? [a, b]\n: 1\n"},
      {"key that is a map", "train: {{a: 1}: 2}\n"},
      {"null key", "~: 1\n"},
      {"section without content", "train:\nmodel:\n"},
      {"tab indentation", "train:\n\tsteps: 5\n"},
      {"unclosed bracket", "data: {train: [{path: a}\n"},
      {"unclosed quote", "run: {name: \"abc\n"},
      {"bad escape", "run: {name: \"\\q\"}\n"},
      {"bad indentation", "train:\n  steps: 5\n micro_batch: 2\n"},
      {"stray bracket", "train: ]\n"},
      {"percent directive", "%YAML 99.1.2\n---\nmodel: {}\n"},
      {"NUL", std::string("run: {name: a\0b}\n", 17)},
      {"escape character", "run: {name: a\x1b[31m}\n"},
      {"invalid UTF-8", "run: {name: \xff\xfe}\n"},
      {"overlong UTF-8", "run: {name: \xc0\xaf}\n"},
      {"UTF-8 surrogate", "run: {name: \xed\xa0\x80}\n"},
      {"truncated UTF-8", "run: {name: \xe6\xb1"},
      {"UTF-16", std::string("\xff\xfe"
                             "m\0o\0d\0e\0l\0",
                             12)},
      {"ELF header", std::string("\x7f"
                                 "ELF\x02\x01\x01\0\0\0",
                                 10)},
      {"gzip header", std::string("\x1f\x8b\x08\0\0\0", 6)},
      {"deep lists", "model: " + repeated("[", 2000) + repeated("]", 2000)},
      {"deep maps", repeated("{a: ", 5000)},
      {"deep block",
       [] {
         std::string s;
         for (int i = 0; i < 200; ++i) s += std::string(static_cast<size_t>(i), ' ') + "a:\n";
         return s;
       }()},
      {"billion laughs",
       "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: "
       "[*c,*c,*c,*c,*c,*c]\n"},
      {"megabytes", "run: {name: " + std::string(2 << 20, 'a') + "}"},
      {"a hundred thousand keys",
       [] {
         std::string s;
         for (int i = 0; i < 100000; ++i) s += "k" + std::to_string(i) + ": 1\n";
         return s;
       }()},
      {"a long word", "run: {" + std::string(100000, 'k') + ": 1}"},
      {"huge list", "model: {masked_ids: [" + repeated("1,", 30000) + "1]}"},
  };
  return m;
}

// True if a line of the message has the form "run.yaml:line:column: message".
bool names_a_place(const std::string& message) {
  const size_t at = message.find("run.yaml:");
  int line = 0, column = 0, length = 0;
  return at != std::string::npos &&
         std::sscanf(message.c_str() + at, "run.yaml:%d:%d: %n", &line, &column, &length) == 2 && line > 0 &&
         column > 0 && length > 0 && message.size() > at + static_cast<size_t>(length) + 5;
}

}  // namespace

TEST_CASE("the spec that the tests mutate is legal", "[config][malformed]") { CHECK(error_of(good_spec()) == ""); }

TEST_CASE("at least 200 malformed run specs are all refused with a place", "[config][malformed]") {
  std::vector<Mutant> mutants = mutants_of_fields();
  for (Mutant& m : mutants_of_syntax()) mutants.push_back(std::move(m));
  for (const Mutant& m : mutants) {
    CAPTURE(m.what);
    const std::string message = error_of(m.text);
    CAPTURE(message.substr(0, 2000));
    CHECK(!message.empty());
    CHECK(names_a_place(message));
  }
  CHECK(mutants.size() >= 200);
}

TEST_CASE("errors show the refused value and the legal ones", "[config][malformed]") {
  RunSpec spec;
  std::vector<Leaf> leaves;
  collect(fields_of(spec), "", leaves);
  for (const Leaf& l : leaves) {
    if (choices_of(l.field).empty()) continue;
    const std::string message = error_of(nested(l.path, "nonsense"));
    CHECK_THAT(message, says("'nonsense'"));
    for (const auto choice : choices_of(l.field)) CHECK_THAT(message, says(std::string(choice)));
  }
}

TEST_CASE("random byte changes cause at most a ConfigError", "[config][malformed]") {
  const std::string& good = good_spec();
  const auto key = Philox::key(11, Purpose::sampling);
  int refused = 0;
  for (uint32_t round = 0; round < 1500; ++round) {
    std::string text = good;
    const uint32_t edits = 1 + round % 4;
    for (uint32_t e = 0; e < edits; ++e) {
      const auto r = Philox::block({round, e, 0, 0}, key);
      const size_t at = r[0] % text.size();
      static const std::string kMarks = "{}[]:,#&*!|>'\"%@`-?~\n\t \\<=0159.eE_";
      switch (r[1] % 4) {
        case 0:
          text[at] = kMarks[r[2] % kMarks.size()];
          break;
        case 1:
          text.insert(at, 1, kMarks[r[2] % kMarks.size()]);
          break;
        case 2:
          text.erase(at, 1 + r[2] % 20);
          break;
        default:
          text[at] = static_cast<char>(r[2]);
          break;
      }
    }
    if (round % 10 == 9) text.resize(text.size() / 2 + round % 97);
    std::string message;
    REQUIRE_NOTHROW(message = error_of(text));  // error_of catches only ConfigError
    refused += !message.empty();
  }
  CHECK(refused > 1000);
}

}  // namespace fp
