#include "io/log_file.h"

#include <exception>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "io/new_file.h"

namespace fp {

void log_to_file(const std::filesystem::path& path) {
  FileDescriptor file;
  std::string problem;
  try {
    file = open_to_append(path);
  } catch (const UserError& e) {
    problem = e.what();
  }
  log::tee_to(std::move(file));
  if (!problem.empty()) log::warning("nothing is logged to a file: {}", problem);
}

void log_errors_to_file(const std::filesystem::path& path) {
  log::tee_errors_to([path] {
    try {
      return open_to_append(path);
    } catch (const std::exception&) {
      return FileDescriptor();
    }
  });
}

}  // namespace fp
