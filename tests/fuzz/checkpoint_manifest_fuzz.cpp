#include "base/error.h"
#include "checkpoint/manifest.h"
#include "io/filesystem.h"
#include "target.h"

// Inputs lack the manifest's last line, its hash, which is computed here, as an attacker could. An accepted manifest
// names only files inside the folder and round-trips.
FP_FUZZ_TARGET(checkpoint_manifest) {
  const std::string text(fp_fuzz::text_of(data, size));
  const std::string sealed = text + fmt::format("  \"xxh3\": \"{}\"\n}}\n", fp::hash_bytes(text.data(), text.size()));
  for (const std::string& content : {text, sealed}) {
    fp_fuzz::write_scratch(fp::CheckpointManifest::kFileName, content);
    fp_fuzz::accept_or_refuse([] {
      const fp::CheckpointManifest m = fp::read_checkpoint_manifest(fp_fuzz::scratch());
      for (const fp::CheckpointFile& f : m.files)
        FP_CHECK(std::filesystem::path(f.name).filename() == f.name && f.name != "..", "'{}' is not in the folder",
                 f.name);
      FP_CHECK(m.extra.is_object(), "extra is {}", m.extra.type_name());
      for (const fp::CheckpointParam& p : m.parameters)
        FP_CHECK(p.shape.elements() >= 0, "{} has {} elements", p.name, p.shape.elements());
      const std::string written = serialize(m);
      fp_fuzz::write_scratch(fp::CheckpointManifest::kFileName, written);
      FP_CHECK(serialize(fp::read_checkpoint_manifest(fp_fuzz::scratch())) == written, "not as it was written:\n{}",
               written);
    });
  }
  return 0;
}
