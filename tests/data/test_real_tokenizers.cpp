// Ids of published tokenizers, whose files cannot be distributed with the tests: FPTRAIN_REAL_TOKENIZERS names a folder
// with llama3/ (any Llama 3) and phi3/ (any phi-3-mini).
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "data/tokenizer/tokenizer.h"
#include "support/skip.h"

using namespace fp;
using Ids = std::vector<int32_t>;

namespace {

// Returns an empty path when the tokenizer is not available.
std::string real_tokenizer(const std::string& name) {
  const char* folder = std::getenv("FPTRAIN_REAL_TOKENIZERS");
  const auto path = std::filesystem::path(folder == nullptr ? "" : folder) / name;
  return folder != nullptr && std::filesystem::is_directory(path) ? path.string() : "";
}

}  // namespace

TEST_CASE("Llama 3's tokenizer gives the published ids") {
  const std::string folder = real_tokenizer("llama3");
  if (folder.empty()) FP_SKIP("FPTRAIN_REAL_TOKENIZERS names no folder with llama3/");
  const auto t = load_tokenizer(folder);
  CHECK(Ids(t->prefix_ids().begin(), t->prefix_ids().end()) == Ids{128000});
  CHECK(t->encode("This is a test sentence.") == Ids{2028, 374, 264, 1296, 11914, 13});
  CHECK(t->encode("This is a test sentence.<|end_of_text|>").back() == 128001);
  CHECK(t->encode("<|start_header_id|>user<|end_header_id|>\n\n") == Ids{128006, 882, 128007, 271});
  CHECK(t->encode("system<|eot_id|>") == Ids{9125, 128009});
}

TEST_CASE("phi-3's tokenizer gives the published ids") {
  const std::string folder = real_tokenizer("phi3");
  if (folder.empty()) FP_SKIP("FPTRAIN_REAL_TOKENIZERS names no folder with phi3/");
  const auto t = load_tokenizer(folder);
  CHECK(t->encode("Hello<|end|>") == Ids{15043, 32007});
  CHECK(t->encode("<|endoftext|><|assistant|><|system|><|user|>") == Ids{32000, 32001, 32006, 32010});
}
