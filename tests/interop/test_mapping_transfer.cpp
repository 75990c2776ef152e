// Import and export of whole models with mappings: other names, orders and parts.
#include <catch2/catch.hpp>

#include "base/error.h"
#include "checkpoint/folder.h"
#include "interop/foreign_model.h"
#include "interop/transfer.h"
#include "model_folders.h"

namespace fp {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using test::cut;
using test::FileTensor;
using test::Folder;
using test::Tensors;

MappingSpec mapping(const ModelSection& m, const std::string& name) { return choose_mapping(name, "hf", m.family); }

void write_config(const fs::path& folder, const ModelSection& m) {
  fs::create_directories(folder);
  write_file_atomically(folder / "config.json", to_hf_config(m).dump());
}

void import_as(const fs::path& from, const fs::path& to, const std::string& mapping) {
  ForeignOptions source;
  source.mapping = mapping;
  import_model({.from = from, .to = to, .source = source, .version = "test"});
}

// Returns the tensors of a checkpoint under a mapping's names.
Tensors exported(const fs::path& checkpoint, const fs::path& to, const std::string& mapping) {
  ExportOptions o;
  o.to = to;
  o.mapping = mapping;
  export_model(open_checkpoint_at(checkpoint), o);
  return test::tensors_in(to);
}

std::string refusal(const fs::path& from, const std::string& mapping) {
  try {
    import_as(from, from.parent_path() / "bad", mapping);
  } catch (const UserError& e) {
    CHECK(!fs::exists(from.parent_path() / "bad"));
    return e.what();
  }
  return "accepted";
}

// Returns the part of rank p of n, by Meta's rules.
FileTensor metas_share(const std::string& name, const FileTensor& t, int64_t p, int64_t n, int embedding_dim) {
  if (name.find("norm") != name.npos) return t;
  int dim = name.find(".wo.") != name.npos || name.find(".w2.") != name.npos ? 1 : 0;
  if (name.starts_with("tok_embeddings")) dim = embedding_dim;
  const int64_t share = t.shape[static_cast<size_t>(dim)] / n;
  return cut(t, dim, p * share, share);
}

TEST_CASE("every shipped mapping imports and exports a model byte for byte", "[mapping]") {
  for (const std::string& name : test::tiny_names())
    for (const std::string of : {"hf", "meta", "llmc"}) {
      const ModelSection m = test::model_of(name);
      const std::string family = name == "gpt" ? "gpt" : name.starts_with("llama") ? "llama" : "";
      if (of != "hf" && (of == "llmc" ? "gpt" : "llama") != family) continue;
      CAPTURE(name, of);
      const Folder folder;
      const MappingSpec theirs = choose_mapping("", of, m.family);
      const Tensors tensors = test::random_tensors(m, theirs);
      write_config(folder / "a", m);
      test::write_tensors(folder / "a/x.safetensors", tensors);
      import_as(folder / "a", folder / "checkpoint", theirs.name);
      CHECK((exported(folder / "checkpoint", folder / "out", theirs.name) == tensors));
    }
}

TEST_CASE("a Llama in Meta's parts equals the model in one file", "[mapping]") {
  for (const int embedding_dim : {0, 1})
    for (const int64_t n : {1, 2}) {
      CAPTURE(embedding_dim, n);
      ModelSection m = test::model_of("llama");
      m.vocab = 38;
      const Folder folder;
      const Tensors whole = test::random_tensors(m, mapping(m, "meta-llama"));
      write_config(folder / "whole", m);
      test::write_tensors(folder / "whole/model.safetensors", whole);
      write_config(folder / "parts", m);
      for (int64_t p = 0; p < n; ++p) {
        Tensors part;
        for (const auto& [name, t] : whole) part[name] = metas_share(name, t, p, n, embedding_dim);
        part["rope.freqs"] = {"BF16", {2}, "abcd"};
        test::write_tensors(folder / fmt::format("parts/consolidated.{:02}.safetensors", p), part);
      }
      import_as(folder / "whole", folder / "one", "meta-llama");
      import_as(folder / "parts", folder / "two", "meta-llama");
      CHECK((exported(folder / "two", folder / "hf2", "") == exported(folder / "one", folder / "hf1", "")));
      CHECK((exported(folder / "two", folder / "meta", "meta-llama") == whole));
    }
}

TEST_CASE("missing or differing parts are refused by name", "[mapping]") {
  ModelSection m = test::model_of("llama");
  m.vocab = 38;
  const Folder folder;
  const Tensors whole = test::random_tensors(m, mapping(m, "meta-llama"));
  write_config(folder / "parts", m);
  std::array<Tensors, 2> parts;
  for (const int64_t p : {0, 1})
    for (const auto& [name, t] : whole) parts[static_cast<size_t>(p)][name] = metas_share(name, t, p, 2, 1);
  parts[1]["norm.weight"].bytes[3] ^= 1;
  parts[1].erase("layers.1.attention.wv.weight");
  parts[1]["stray"] = {"F32", {1}, "abcd"};
  const auto write = [&](const std::string& name, size_t p) {
    test::write_tensors(folder / ("parts/consolidated." + name + ".safetensors"), parts[p]);
  };
  write("00", 0);
  write("01", 1);
  const std::string said = refusal(folder / "parts", "meta-llama");
  CHECK_THAT(said, Contains("norm.weight is not the same in consolidated.00.safetensors and in consolidated.01"));
  CHECK_THAT(said, Contains("layers.1.attention.wv.weight is missing in consolidated.01.safetensors"));
  CHECK_THAT(said, Contains("stray [1] belongs to no parameter") && Contains("meta-llama.yaml"));
  write("03", 1);
  CHECK_THAT(refusal(folder / "parts", "meta-llama"), Contains("03.safetensors exists, but part 2 is missing"));
  write("1", 1);
  CHECK_THAT(refusal(folder / "parts", "meta-llama"), Contains("are both part 1"));
  for (const char* extra : {"01", "1", "03"})
    fs::remove(folder / (std::string("parts/consolidated.") + extra + ".safetensors"));
  CHECK_THAT(refusal(folder / "parts", "meta-llama"),
             Contains("layers.0.attention.wq.weight is [8,16], the model needs [16,16]"));
}

// A program with two tensor-parallel ranks that fuses tensors as Megatron does, with part numbers in the tensor names.
const std::string kOther = R"(family: phi3
rules:
- {source: "rank{part}.words", target: model.embed_tokens.weight, pattern: vocabulary}
- {source: "rank{part}.{layer}.n1", target: "model.layers.{layer}.input_layernorm.weight", pattern: replicated}
- source: rank{part}.{layer}.qkv
  target: model.layers.{layer}.self_attn.qkv_proj.weight
  pattern: fragment
  sub_fragments: [heads, kv_heads, kv_heads]
- source: rank{part}.{layer}.dense
  target: model.layers.{layer}.self_attn.o_proj.weight
  pattern: fragment
  dim: 0
  transform: transposed
- {source: "rank{part}.{layer}.n2", target: "model.layers.{layer}.post_attention_layernorm.weight", pattern: average}
- source: rank{part}.{layer}.swiglu
  target: model.layers.{layer}.mlp.gate_up_proj.weight
  pattern: fragment
  sub_fragments: [ffn, ffn]
- {source: "rank{part}.{layer}.down", target: "model.layers.{layer}.mlp.down_proj.weight", pattern: fragment, dim: 1}
- {source: final, target: model.norm.weight}
- {source: head, target: lm_head.weight}
ignore: ["rank{part}.step"]
)";

TEST_CASE("a custom mapping reads parts of every pattern", "[mapping]") {
  const ModelSection m = test::model_of("phi3");
  const Folder folder;
  write_file_atomically(folder / "other.yaml", kOther);
  const Tensors whole = test::random_tensors(m, mapping(m, folder / "other.yaml"));
  const int64_t q = m.heads * m.head_dim / 2, kv = m.kv_heads * m.head_dim / 2, f = m.ffn / 2;
  Tensors parts;
  for (const auto& [name, t] : whole) {
    const std::string rest = name.substr(name.find('.') + 1);
    if (!name.starts_with("rank0.")) parts[name] = t;
    for (const int64_t p : {0, 1}) {
      if (!name.starts_with("rank0.")) break;
      FileTensor& part = parts[fmt::format("rank{}.{}", p, rest)] = t;
      const auto rows = [&](int64_t begin, int64_t count) { return cut(t, 0, begin, count); };
      if (rest == "words") {
        const FileTensor padded = test::stacked(t, rows(0, 3));  // 40 rows for a vocabulary of 37
        part = cut(padded, 0, p * 20, 20);
      } else if (rest.ends_with("qkv")) {
        part =
            test::stacked(rows(p * q, q), test::stacked(rows(2 * q + p * kv, kv), rows(2 * q + 2 * kv + p * kv, kv)));
      } else if (rest.ends_with("swiglu")) {
        part = test::stacked(rows(p * f, f), rows(2 * f + p * f, f));
      } else if (rest.ends_with("dense")) {
        part = rows(p * t.shape[0] / 2, t.shape[0] / 2);
      } else if (rest.ends_with("down")) {
        part = cut(t, 1, p * f, f);
      }
    }
  }
  parts["rank1.step"] = {"I64", {}, "12345678"};
  write_config(folder / "parts", m);
  test::write_tensors(folder / "parts/model.safetensors", parts);
  import_as(folder / "parts", folder / "checkpoint", folder / "other.yaml");
  CHECK((exported(folder / "checkpoint", folder / "out", folder / "other.yaml") == whole));

  write_config(folder / "again", m);  // the export, in one part, is imported again
  test::write_tensors(folder / "again/model.safetensors", whole);
  import_as(folder / "again", folder / "checkpoint2", folder / "other.yaml");
  CHECK((exported(folder / "checkpoint2", folder / "hf2", "") == exported(folder / "checkpoint", folder / "hf1", "")));
}

TEST_CASE("mappings that do not fit the model are refused with the reason", "[mapping]") {
  const ModelSection m = test::model_of("phi3");
  const Folder folder;
  write_config(folder / "a", m);
  test::write_tensors(folder / "a/model.safetensors", test::random_tensors(m, choose_mapping("", "hf", m.family)));
  const auto with = [&](std::string text, const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
    write_file_atomically(folder / "m.yaml", text);
    return refusal(folder / "a", folder / "m.yaml");
  };
  CHECK_THAT(with(kOther, "target: model.norm.weight", "target: model.nrm.weight"),
             Contains("m.yaml: has no rule for parameters of this model (the nearest target is 'model.nrm.weight')") &&
                 Contains("\n  model.norm.weight"));
  CHECK_THAT(with(kOther, "final, ", "final, transform: transposed, "),
             Contains("rules[7], model.norm.weight: [16] cannot be transposed"));
  CHECK_THAT(with(kOther, "head, target", "head, transform: rotary_pairs, target"),
             Contains("[37,16] cannot be rotary pairs"));
  CHECK_THAT(with(kOther, "head, target", "heads, target"), Contains("is missing\n  ... and "));
  CHECK_THAT(with(kOther, "family: phi3", "family: llama"), Contains("is a mapping of llama models"));
  CHECK_THAT(refusal(folder / "a", "hf-phi"), Contains("--mapping hf-phi") && Contains("hf-phi3"));
}

TEST_CASE("a copy of the embedding must be equal, in parts too", "[mapping]") {
  ModelSection m = test::model_of("llama3");
  m.vocab = 38;
  const Folder folder;
  Tensors whole = test::random_tensors(m, mapping(m, "meta-llama"));
  CHECK_FALSE(whole.contains("output.weight"));
  whole["output.weight"] = whole["tok_embeddings.weight"];
  const auto write = [&] {
    write_config(folder / "parts", m);
    for (const int64_t p : {0, 1}) {
      Tensors part;
      for (const auto& [name, t] : whole) part[name] = metas_share(name, t, p, 2, 1);
      test::write_tensors(folder / fmt::format("parts/consolidated.0{}.safetensors", p), part);
    }
  };
  write();
  import_as(folder / "parts", folder / "checkpoint", "meta-llama");
  whole["output.weight"].bytes[100] ^= 1;
  write();
  CHECK_THAT(refusal(folder / "parts", "meta-llama"),
             Contains("output.weight differs from tok_embeddings.weight") && Contains("same_as "));
}

}  // namespace
}  // namespace fp
