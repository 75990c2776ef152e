// FPTRAIN_ATTENTION: which implementations of attention may run.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "base/error.h"
#include "cuda/ops/cuda_ops.h"

using namespace fp;

namespace {

struct Only {
  explicit Only(const char* list) { ::setenv("FPTRAIN_ATTENTION", list, 1); }
  ~Only() { ::unsetenv("FPTRAIN_ATTENTION"); }
};

Tensor shape_only(DType dtype) { return {reinterpret_cast<void*>(uintptr_t{1} << 60), dtype, {1, 16, 2, 64}}; }

}  // namespace

TEST_CASE("FPTRAIN_ATTENTION leaves the implementations that it names") {
  const Tensor f32 = shape_only(DType::f32), bf16 = shape_only(DType::bf16);
  {
    CudaOps all(0);
    CHECK(all.explain_attention(f32, f32, {}, {}).starts_with("simt ("));
    CHECK(all.explain_attention(bf16, bf16, {}, {}) == "flash");
  }
  const Only simt("simt");
  CudaOps ops(0);
  CHECK(ops.explain_attention(f32, f32, {}, {}) == "simt");
}

TEST_CASE("what FPTRAIN_ATTENTION leaves may refuse a call, and says why") {
  const Only flash("flash");
  CudaOps ops(0);
  const Tensor f32 = shape_only(DType::f32), bf16 = shape_only(DType::bf16);
  CHECK_NOTHROW(ops.attention_scratch(bf16, bf16, {}, {}, false));
  CHECK_THROWS_AS(ops.attention_scratch(f32, f32, {}, {}, false), ConfigError);
  CHECK_THROWS_WITH(ops.attention_scratch(f32, f32, {}, {}, false),
                    Catch::Contains("FPTRAIN_ATTENTION=flash") && Catch::Contains("flash: "));
}

TEST_CASE("heads that no implementation takes are a mistake of the model, said in set-up") {
  CudaOps ops(0);
  for (const DType t : {DType::f32, DType::bf16}) {
    const Tensor wide(reinterpret_cast<void*>(uintptr_t{1} << 60), t, {1, 16, 2, 264});
    CHECK_THROWS_AS(ops.attention_scratch(wide, wide, {}, {}, true), ConfigError);
    CHECK_THROWS_WITH(ops.attention_scratch(wide, wide, {}, {}, true),
                      Catch::Contains("264") && Catch::Contains("cpu"));
  }
}

TEST_CASE("FPTRAIN_ATTENTION with another name is refused with the legal ones") {
  for (const char* list : {"fast", "flash,fast", "", "flash;simt"}) {
    INFO(list);
    const Only only(list);
    CHECK_THROWS_AS(CudaOps(0), ConfigError);
    CHECK_THROWS_WITH(CudaOps(0), Catch::Contains("flash, simt"));
  }
}
