#include "base/error.h"
#include "data/formats/manifest.h"
#include "target.h"

// The whole manifest is parsed before its hash is verified. An accepted manifest was, by its hash, written by fptrain.
FP_FUZZ_TARGET(data_manifest) {
  fp_fuzz::write_scratch(fp::Manifest::kFileName, fp_fuzz::text_of(data, size));
  fp_fuzz::accept_or_refuse([&] {
    const fp::Manifest m = fp::read_manifest(fp_fuzz::scratch());
    FP_CHECK(serialize(m) == fp_fuzz::text_of(data, size), "accepted, and not as it was written");
    FP_CHECK(!identity_of(m).empty(), "no identity");
  });
  return 0;
}
