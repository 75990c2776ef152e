#include "train/rank_result.h"

#include <cstring>
#include <type_traits>

#include "base/stopwatch.h"
#include "comm/comm.h"

namespace fp {

const std::string& RankResult::value() const {
  if (ok()) return text;
  if (code == ExitCode::bad_config) throw ConfigError(text);
  if (code == ExitCode::bad_data || is_data_error) throw DataError(text, code);
  if (code == ExitCode::infrastructure) throw InfrastructureError(text);
  throw UserError(code, text);
}

namespace {

// The text follows it: a message may name a file whose name is not UTF-8, which JSON does not take.
struct Header {
  ExitCode code;
  bool is_data_error;
  double seconds;
};
static_assert(std::is_trivially_copyable_v<Header>);

}  // namespace

std::string RankResult::serialize() const {
  Header header;
  std::memset(&header, 0, sizeof(header));  // padding too
  header.code = code, header.is_data_error = is_data_error, header.seconds = seconds;
  std::string bytes(sizeof(header), '\0');
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes + text;
}

RankResult RankResult::parse(const std::string& serialized) {
  Header header;
  FP_CHECK(serialized.size() >= sizeof(header), "a rank's result has {} bytes", serialized.size());
  std::memcpy(&header, serialized.data(), sizeof(header));
  return {header.code, header.is_data_error, header.seconds, serialized.substr(sizeof(header))};
}

RankResult run_and_catch(const std::function<std::string()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  RankResult result;
  try {
    result.text = work();
  } catch (const CommError&) {
    throw;
  } catch (const UserError& e) {
    result.code = e.code();
    result.is_data_error = dynamic_cast<const DataError*>(&e) != nullptr;
    result.text = e.what();
  }
  result.seconds = seconds_since(begin);
  return result;
}

}  // namespace fp
