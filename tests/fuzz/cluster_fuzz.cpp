#include "base/error.h"
#include "config/cluster/cluster.h"
#include "target.h"

// An accepted cluster description can be dumped, and parsing the dump gives an equal one.
FP_FUZZ_TARGET(cluster) {
  fp_fuzz::accept_or_refuse([&] {
    const fp::ClusterSpec cluster = fp::parse_cluster(fp_fuzz::text_of(data, size), "input");
    const std::string text = fp::dump(cluster);
    FP_CHECK(fp::parse_cluster(text, "dump") == cluster, "the dump parses as another cluster:\n{}", text);
  });
  return 0;
}
