// Arbitrary bytes as the chat template of a Hugging Face folder (Jinja) and as a template file: refused, or a template
// that survives its own form in manifests and checkpoints.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "data/text/chat_template.h"
#include "data/text/hf_chat_template.h"
#include "target.h"

namespace {

void require_stable(const fp::ChatTemplate& t) {
  const std::string form = fp::serialize(t);
  FP_CHECK(fp::find_chat_template(form) == t, "{} is read as another template", form);
}

}  // namespace

FP_FUZZ_TARGET(chat_template) {
  const std::string text(fp_fuzz::text_of(data, size));
  fp_fuzz::accept_or_refuse([&] { require_stable(fp::chat_template_from_jinja(text, "<s>", "", "input")); });
  fp_fuzz::accept_or_refuse([&] { require_stable(fp::parse_chat_template(text, "input")); });
  return 0;
}
