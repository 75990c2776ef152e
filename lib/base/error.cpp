#include "base/error.h"

#include <filesystem>

namespace fp {

void fail_check(const char* expression, const char* file, int line, const std::string& message) {
  throw InternalError(fmt::format("{}:{}: check failed: {}: {}", std::filesystem::path(file).filename().string(), line,
                                  expression, message));
}

}  // namespace fp
