// Peak FLOP/s by the name that the driver gives a GPU.
#include <catch2/catch.hpp>

#include "cuda/rules/data_sheet.h"

using namespace fp;
using namespace fp::cuda;

TEST_CASE("a GPU is found in the data sheets by whole words of its name") {
  const auto teraflops = [](const std::string& gpu) { return data_sheet_flops(gpu, DType::bf16) / 1e12; };
  CHECK(teraflops("NVIDIA A100-SXM4-80GB") == Approx(312));
  CHECK(teraflops("NVIDIA H100 80GB HBM3") == Approx(989));
  CHECK(teraflops("NVIDIA H100 PCIe") == Approx(756));
  CHECK(teraflops("NVIDIA H200") == Approx(989));
  CHECK(teraflops("NVIDIA H200 NVL") == Approx(835));
  CHECK(teraflops("NVIDIA GH200 480GB") == Approx(989));
  CHECK(teraflops("NVIDIA GB200") == Approx(2500));
  CHECK(teraflops("NVIDIA GB300") == Approx(2500));
  CHECK(teraflops("NVIDIA L40S") == Approx(362));
  CHECK(teraflops("NVIDIA L40") == Approx(181));
  CHECK(teraflops("NVIDIA L4") == Approx(121));
  CHECK(teraflops("NVIDIA A40") == Approx(150));
  CHECK(teraflops("NVIDIA RTX 6000 Ada Generation") == Approx(364));
  CHECK(data_sheet_flops("NVIDIA RTX A6000", DType::f32) == Approx(38.7e12));
  // Parts of their names are names of other cards.
  for (const char* other : {"NVIDIA RTX A1000", "NVIDIA RTX A4000", "NVIDIA RTX A3000", "NVIDIA A10G", "Tesla T4"}) {
    CAPTURE(other);
    CHECK(teraflops(other) == 0);
  }
}
