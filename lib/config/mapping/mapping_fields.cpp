#include "config/mapping/mapping_fields.h"

#include <array>

namespace fp {

EnumNames names_of(PartPattern) {
  static constexpr std::array<std::string_view, 5> kNames = {"unique", "replicated", "fragment", "average",
                                                             "vocabulary"};
  return kNames;
}

EnumNames names_of(TensorTransform) {
  static constexpr std::array<std::string_view, 3> kNames = {"same", "transposed", "rotary_pairs"};
  return kNames;
}

void declare(Fields& f, MappingRule& s) {
  f.add("source", s.source,
        {.doc =
             "Name of a tensor of the other program. An export writes the name with its optional part and with part 0.",
         .required = true});
  f.add("target", s.target,
        {.doc = "Name of the parameter that the source becomes, with the same numbers.", .required = true});
  f.add(
      "same_as", s.same_as,
      {.doc =
           "For models without the target: the parameter that the source duplicates, such as the embedding for a tied "
           "output projection. There the source may be missing, must be equal if present, and is not exported."});
  f.add("pattern", s.pattern, {.doc = "How the parts of the source combine into one tensor, if there are several."});
  f.add("dim", s.dim,
        {.doc = "`fragment`: the dimension along which the source is split. -1: derived from the shapes of the parts.",
         .min = -1,
         .max = 1});
  f.add("sub_fragments", s.sub_fragments,
        {.doc = "`fragment`: ranges of that dimension that are split separately, by their relative lengths as keys of "
                "the model section. Fused queries, keys and values are `[heads, kv_heads, kv_heads]`, fused gate and "
                "up projections `[ffn, ffn]`. Empty: split as a whole.",
         .choices = {"heads", "kv_heads", "ffn", "hidden"}});
  f.add("transform", s.transform,
        {.doc = "Layout of the combined source. `transposed`: inputs before outputs. `rotary_pairs`: in each head, the "
                "two rows of each rotary pair are adjacent; fptrain stores the first rows of all pairs before the "
                "second rows."});
}

void declare(Fields& f, MappingSpec& s) {
  f.add("family", s.family, {.doc = "Family of the models that the mapping is for.", .required = true});
  f.add(
      "files", s.files,
      {.doc = "Names of safetensors files with one part each, with `{part}` counted from 0 (with or without leading "
              "zeros). If this is empty, or a folder has no such files, the folder is read as a Hugging Face folder."});
  f.add("rules", s.rules,
        {.doc = "One rule for each kind of tensor. Every parameter of the model needs a rule.", .required = true});
  f.add(
      "ignore", s.ignore,
      {.doc = "Names of tensors that are not parameters, such as masks. Any other tensor without a rule is refused."});
}

}  // namespace fp
