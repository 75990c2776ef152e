#include "config/mapping_fields.h"

#include <array>

namespace fp {

std::span<const std::string_view> names_of(PartPattern) {
  static constexpr std::array<std::string_view, 5> kNames = {"unique", "replicated", "fragment", "average",
                                                             "vocabulary"};
  return kNames;
}

std::span<const std::string_view> names_of(TensorTransform) {
  static constexpr std::array<std::string_view, 3> kNames = {"same", "transposed", "rotary_pairs"};
  return kNames;
}

void declare(Fields& f, MappingRule& s) {
  f.add("source", s.source,
        {.doc = "Name of a tensor of the other program. An export writes it with the optional part, and with part 0.",
         .required = true});
  f.add("target", s.target, {.doc = "Name of the parameter that it is, with the same numbers.", .required = true});
  f.add("same_as", s.same_as,
        {.doc = "The parameter whose copy the source is in models that have no such target: a head that is tied to the "
                "embedding. There it may be missing, must be equal where it is not, and is not exported."});
  f.add("pattern", s.pattern, {.doc = "How the parts of the source make one tensor, where there are several."});
  f.add("dim", s.dim,
        {.doc = "`fragment`: the dimension of the source that is cut. -1: the one that the shapes of the parts show.",
         .min = -1,
         .max = 1});
  f.add("sub_fragments", s.sub_fragments,
        {.doc = "`fragment`: what that dimension is made of, each cut for itself; relative lengths, in words of the "
                "model section. Fused queries, keys and values are `[heads, kv_heads, kv_heads]`, fused gate and up "
                "`[ffn, ffn]`. Empty: cut as a whole.",
         .choices = {"heads", "kv_heads", "ffn", "hidden"}});
  f.add("transform", s.transform,
        {.doc = "How the source lies, put together. `transposed`: inputs before outputs. `rotary_pairs`: of each head "
                "the rows that rotate together stand side by side; here its first half comes before the second."});
}

void declare(Fields& f, MappingSpec& s) {
  f.add("family", s.family, {.doc = "The models it is for.", .required = true});
  f.add("files", s.files,
        {.doc = "Names of the safetensors files of a folder that hold one part each, with `{part}` from 0 on (with or "
                "without zeros before it). Where there are none, and where this is empty, the folder is read as a "
                "Hugging Face one."});
  f.add("rules", s.rules,
        {.doc = "One for each kind of tensor. Every parameter of the model needs one.", .required = true});
  f.add("ignore", s.ignore,
        {.doc = "Names of tensors that hold nothing trained, such as masks; any other is refused."});
}

}  // namespace fp
