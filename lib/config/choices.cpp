#include "config/choices.h"

namespace fp {

EnumNames names_of(RunDevice) {
  static constexpr std::string_view kNames[] = {"auto", "cpu", "cuda", "ref"};
  return kNames;
}

EnumNames names_of(RopeKind) {
  static constexpr std::string_view kNames[] = {"none", "standard", "linear", "llama3", "longrope"};
  return kNames;
}

EnumNames names_of(DType) {
  static constexpr std::string_view kNames[] = {name_of(DType::f32), name_of(DType::bf16)};
  return kNames;
}

EnumNames names_of(PipelineSchedule) {
  static constexpr std::string_view kNames[] = {"gpipe",    "1f1b",      "interleaved",    "bfs",     "zb-h1",
                                                "zb-h2",    "zb-v",      "interleaved-zb", "chimera", "bitpipe",
                                                "dualpipe", "dualpipev", "zeropp",         "wave"};
  return kNames;
}

EnumNames names_of(Recompute) {
  static constexpr std::string_view kNames[] = {"none", "selective", "full"};
  return kNames;
}

EnumNames names_of(Offload) {
  static constexpr std::string_view kNames[] = {"none", "host"};
  return kNames;
}

EnumNames names_of(Objective) {
  static constexpr std::string_view kNames[] = {"pretrain", "sft", "dpo"};
  return kNames;
}

EnumNames names_of(Nonfinite) {
  static constexpr std::string_view kNames[] = {"stop", "skip"};
  return kNames;
}

EnumNames names_of(OptimizerKind) {
  static constexpr std::string_view kNames[] = {
#define FP_OPTIMIZER(Rule, name) #name,
      FP_OPTIMIZERS(FP_OPTIMIZER)
#undef FP_OPTIMIZER
          "muon"};
  return kNames;
}

EnumNames names_of(MuonScale) {
  static constexpr std::string_view kNames[] = {"rms", "spectral"};
  return kNames;
}

EnumNames names_of(LearningRateSchedule) {
  static constexpr std::string_view kNames[] = {"cosine", "linear", "constant", "wsd"};
  return kNames;
}

EnumNames names_of(DecayShape) {
  static constexpr std::string_view kNames[] = {"minus_sqrt", "linear", "cosine", "exponential"};
  return kNames;
}

EnumNames names_of(Sampling) {
  static constexpr std::string_view kNames[] = {"packed", "documents"};
  return kNames;
}

EnumNames names_of(LongDocuments) {
  static constexpr std::string_view kNames[] = {"error", "truncate", "drop"};
  return kNames;
}

EnumNames names_of(Permissions) {
  static constexpr std::string_view kNames[] = {"umask", "private", "group"};
  return kNames;
}

}  // namespace fp
