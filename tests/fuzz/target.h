// Helpers for fuzz targets. A target either accepts its input or refuses it with a UserError. Any other exception, a
// crash, and using more than a few hundred MiB of memory are findings.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/log.h"

// FP_FUZZ_TARGET(name) { ... } defines a target: a function of `const uint8_t* data` and `size_t size` that returns 0.
// With libFuzzer each target is an executable; in other builds test_fuzz holds all of them (driver.cpp).
#ifdef FP_LIBFUZZER
#define FP_FUZZ_TARGET(name) extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size)
#else
#define FP_FUZZ_TARGET(name)                                                  \
  static int run_##name(const uint8_t* data, size_t size);                    \
  static const bool added_##name = ::fp_fuzz::add_target(#name, &run_##name); \
  static int run_##name([[maybe_unused]] const uint8_t* data, [[maybe_unused]] size_t size)
#endif

namespace fp_fuzz {

using Target = int (*)(const uint8_t* data, size_t size);

// Makes a target known to the driver under a name. Returns true.
bool add_target(const char* name, Target);

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Runs `parse` and catches a UserError.
template <class Parse>
void accept_or_refuse(Parse&& parse) {
  try {
    std::forward<Parse>(parse)();
  } catch (const fp::UserError&) {
  }
}

// Returns whether JSON is nested more deeply than the file readers allow. For targets that construct JSON values
// without these readers.
inline bool is_nested_deeply(std::string_view json) {
  constexpr int kDeepest = 64;
  int depth = 0;
  for (const char c : json) {
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > kDeepest) return true;
  }
  return false;
}

// Silences warnings, for targets that log warnings about malformed input.
inline void silence_log() {
  static const bool done = (fp::log::configure(fp::log::Level::error, 0, 1), true);
  static_cast<void>(done);
}

// Returns a temporary folder, in memory where possible, for parsers that read files. It is removed by the process that
// called first, which is not the child that crashes.
inline const std::filesystem::path& scratch() {
  struct Folder {
    std::filesystem::path path;
    pid_t owner = ::getpid();

    Folder() {
      const std::filesystem::path memory = "/dev/shm";
      const bool usable = ::access(memory.c_str(), W_OK) == 0;
      std::string name = ((usable ? memory : std::filesystem::temp_directory_path()) / "fptrain-fuzz-XXXXXX").string();
      FP_CHECK(::mkdtemp(name.data()) != nullptr, "no folder can be made as {}", name);
      path = name;
    }
    ~Folder() {
      std::error_code ignored;
      if (::getpid() == owner) std::filesystem::remove_all(path, ignored);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
  };
  static const Folder folder;
  return folder.path;
}

// Empties the scratch folder.
inline void clear_scratch() {
  for (const auto& entry : std::filesystem::directory_iterator(scratch())) std::filesystem::remove_all(entry.path());
}

// Writes a file in the scratch folder and returns its path.
inline std::filesystem::path write_scratch(const std::string& name, std::string_view content) {
  const std::filesystem::path path = scratch() / name;
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(content.data(), static_cast<std::streamsize>(content.size()));
  out.close();
  FP_CHECK(!out.fail(), "{}: cannot be written", path.string());
  return path;
}

}  // namespace fp_fuzz
