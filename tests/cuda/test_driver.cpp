// The messages for a GPU that cannot be used.
#include <catch2/catch.hpp>

#include "cuda/rules/driver.h"

using namespace fp::cuda;
using Catch::Matchers::Contains;

namespace {

DriverAnswer good() {
  DriverAnswer a;
  a.driver_version = 13000, a.runtime_version = 13000;
  a.kernel_module = "580.65.06";
  a.devices = 2;
  a.name = "NVIDIA H100", a.compute_major = 9, a.compute_minor = 0;
  return a;
}
constexpr const char* kArchs = "80,90,100";

}  // namespace

TEST_CASE("a usable GPU has no unavailable_reason") {
  CHECK(unavailable_reason(good(), 0, kArchs).empty());
  CHECK(unavailable_reason(good(), 1, kArchs).empty());
  DriverAnswer newer = good();
  newer.driver_version = 13020;
  CHECK(unavailable_reason(newer, 0, kArchs).empty());
  newer.runtime_version = 13020, newer.driver_version = 13000;  // any driver of the major version suffices
  CHECK(unavailable_reason(newer, 0, kArchs).empty());
}

TEST_CASE("the reason names a missing or old driver with both versions") {
  DriverAnswer a = good();
  a.driver_version = 12080, a.kernel_module = "570.86.15";
  CHECK_THAT(unavailable_reason(a, 0, kArchs), Contains("570.86.15") && Contains("12.8") && Contains("13.0"));
  a.driver_version = 0;
  CHECK_THAT(unavailable_reason(a, 0, kArchs), Contains("570.86.15") && Contains("libcuda.so.1"));
  a.kernel_module.clear();
  CHECK_THAT(unavailable_reason(a, 0, kArchs), Contains("no NVIDIA driver") && Contains("libcuda.so.1"));
}

TEST_CASE("the reason names a GPU that is hidden, absent or not supported") {
  DriverAnswer a = good();
  CHECK_THAT(unavailable_reason(a, 2, kArchs), Contains("GPU 2") && Contains("CUDA_VISIBLE_DEVICES"));
  a.devices = 0;
  CHECK_THAT(unavailable_reason(a, 0, kArchs), Contains("CUDA_VISIBLE_DEVICES"));
  a = good();
  a.error = "cudaErrorSystemNotReady: system not yet initialized";
  CHECK_THAT(unavailable_reason(a, 0, kArchs), Contains("cudaErrorSystemNotReady"));
  a = good();
  a.name = "Tesla V100", a.compute_major = 7, a.compute_minor = 0;
  CHECK_THAT(unavailable_reason(a, 0, kArchs), Contains("Tesla V100") && Contains("7.0") && Contains(kArchs));
}

TEST_CASE("code runs on the compute capabilities of its architectures") {
  CHECK(built_for("80", 8, 0));
  CHECK(built_for("80", 8, 9));
  CHECK(built_for("80", 9, 0));  // PTX
  CHECK_FALSE(built_for("80", 7, 5));
  CHECK(built_for("80-real", 8, 6));
  CHECK_FALSE(built_for("80-real", 9, 0));
  CHECK_FALSE(built_for("86-real", 8, 0));
  CHECK(built_for("90-virtual", 10, 0));
  CHECK(built_for("90a", 9, 0));
  CHECK_FALSE(built_for("90a", 10, 0));
  CHECK(built_for("100f", 10, 3));
  CHECK_FALSE(built_for("100f", 12, 0));
  CHECK(built_for("90a,100f", 10, 0));
  CHECK_FALSE(built_for("", 9, 0));
}

TEST_CASE("the driver version is parsed from the line of the kernel module") {
  CHECK(module_version("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023") ==
        "535.104.05");
  CHECK(module_version("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build") ==
        "580.65.06");
  CHECK(module_version("").empty());
}
