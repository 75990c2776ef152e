// The files exported beside the weights: tokenizer files, special ids, windows.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "base/error.h"
#include "config/hf/hf_config.h"
#include "data/tokenizer/base64.h"
#include "data/tokenizer/byte_alphabet.h"
#include "interop/companions.h"
#include "interop/foreign_model.h"
#include "io/filesystem.h"
#include "support/tiny_models.h"

using namespace fp;

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Ids = std::vector<int32_t>;
using Catch::Matchers::Contains;

struct CompanionFolder {
  fs::path path = fs::temp_directory_path() / ("fptrain-companions-" + std::to_string(::getpid()));
  CompanionFolder() { fs::create_directories(path); }
  ~CompanionFolder() { fs::remove_all(path); }
  void write(const CarriedFiles& files) const {
    for (const auto& [name, content] : files) write_file_atomically(path / name, content);
  }
  Json read(const std::string& name) const { return Json::parse(read_file(path / name)); }
};

// Bytes, a merged token for each of these, and added tokens after them.
std::string tokenizer_json(const std::vector<std::string>& added, const std::string& joined = "ab") {
  const ByteAlphabet alphabet;
  Json vocab = Json::object(), tokens = Json::array();
  for (int b = 0; b < 256; ++b)
    vocab[alphabet.to_printable(std::string(1, static_cast<char>(static_cast<uint8_t>(b))))] = b;
  vocab[joined] = 256;
  for (size_t i = 0; i < added.size(); ++i)
    tokens.push_back({{"id", 257 + i}, {"content", added[i]}, {"special", true}});
  const Json step = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  const Json merge = {joined.substr(0, 1), joined.substr(1)};
  return Json({{"version", "1.0"},
               {"added_tokens", tokens},
               {"pre_tokenizer", step},
               {"decoder", step},
               {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array({merge})}}}})
      .dump();
}

std::string ranks() {
  std::string text;
  for (int b = 0; b < 256; ++b)
    text += base64_encode(std::string(1, static_cast<char>(static_cast<uint8_t>(b)))) + " " + std::to_string(b) + "\n";
  return text;
}

const std::vector<std::string> kAdded = {"<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"};

RunSpec spec_of_family(const std::string& name) {
  RunSpec spec;
  spec.model = test::tiny_model(name);
  spec.model.dropout_embedding = spec.model.dropout_attention = spec.model.dropout_residual = spec.model.dropout_ffn =
      0;
  return spec;
}

}  // namespace

TEST_CASE("a tokenizer's exported files load as the same tokenizer", "[companions]") {
  const std::string config = R"({"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"})";
  const std::string decoder = R"({"bos_token": "<|x|>", "eos_token": "<|x|>", "add_bos_token": true,
    "added_tokens_decoder": {"256": {"content": "<|x|>", "special": true, "rstrip": true}}})";
  for (const auto& [files, main] :
       {std::pair(CarriedFiles{{"tokenizer.json", tokenizer_json(kAdded)}}, "tokenizer.json"),
        std::pair(CarriedFiles{{"tokenizer.json", tokenizer_json(kAdded)}, {"tokenizer_config.json", config}},
                  "tokenizer.json"),
        std::pair(CarriedFiles{{"tokenizer.tiktoken", ranks()}, {"tokenizer_config.json", decoder}},
                  "tokenizer.tiktoken")}) {
    std::unique_ptr<Tokenizer> before;
    {
      const CompanionFolder folder;
      folder.write(files);
      before = load_tokenizer(folder.path.string());
    }
    const auto written = hf_tokenizer_files(*before);
    CHECK((written.at(main) == files.at(main)));
    const CompanionFolder folder;
    folder.write(written);
    CHECK(load_tokenizer(folder.path.string())->hash() == before->hash());
    CHECK(folder.read("tokenizer_config.json").contains("eos_token"));
  }
  CHECK(hf_tokenizer_files(*load_tokenizer("bytes")).empty());
}

TEST_CASE("carried files of another tokenizer are not exported", "[companions]") {
  TrainState state;
  state.tokenizer_json = tokenizer_json(kAdded);
  state.carried = {{"tokenizer.json", tokenizer_json(kAdded)},
                   {"tokenizer_config.json", R"({"eos_token": "<|eot_id|>"})"},
                   {"config.json", R"({"eos_token_id": 259, "pad_token_id": 4})"},
                   {"generation_config.json", R"({"eos_token_id": [259], "temperature": 0.5})"}};
  const RunSpec spec = spec_of_family("llama");
  {
    const CompanionFolder folder;  // the same ids, whatever the end-of-text token
    CHECK(write_companions(folder.path, spec, state, ElementType::f32));
    CHECK(folder.read("config.json")["eos_token_id"] == 259);
    CHECK(read_file(folder.path / "generation_config.json") == state.carried.at("generation_config.json"));
    CHECK(read_file(folder.path / "tokenizer_config.json") == state.carried.at("tokenizer_config.json"));
  }
  state.tokenizer_json = tokenizer_json(kAdded, "cd");
  const CompanionFolder folder;
  CHECK(write_companions(folder.path, spec, state, ElementType::f32));
  CHECK(read_file(folder.path / "tokenizer.json") == state.tokenizer_json);
  CHECK(folder.read("tokenizer_config.json")["eos_token"] == "<|end_of_text|>");
  CHECK(folder.read("config.json")["eos_token_id"] == 258);
  CHECK(folder.read("config.json")["pad_token_id"].is_null());
  CHECK(folder.read("generation_config.json")["eos_token_id"] == 258);
  CHECK_FALSE(folder.read("generation_config.json").contains("temperature"));
}

TEST_CASE("the end-of-message token ends the text of a model trained on conversations", "[companions]") {
  TrainState state;
  state.tokenizer_json = tokenizer_json(kAdded);
  state.extra["end_of_message_ids"] = {259};
  CHECK(stop_ids_of(state) == Ids{259});
  {
    const CompanionFolder folder;
    write_companions(folder.path, spec_of_family("phi3"), state, ElementType::f32);
    CHECK(folder.read("config.json")["eos_token_id"] == Json({259, 258}));
    CHECK(folder.read("generation_config.json")["eos_token_id"] == Json({259, 258}));
  }
  state.carried["generation_config.json"] = R"({"eos_token_id": [258, 259], "temperature": 0.5})";
  CHECK(stop_ids_of(state) == Ids{259, 258});
  const CompanionFolder folder;
  write_companions(folder.path, spec_of_family("gpt"), state, ElementType::f32);
  CHECK(folder.read("config.json")["eos_token_id"] == 258);  // one id in GPT-2's
  CHECK(folder.read("generation_config.json")["eos_token_id"] == Json({259, 258}));
  CHECK(folder.read("generation_config.json")["temperature"] == 0.5);
}

TEST_CASE("malformed carried files are refused with name, key and value", "[companions]") {
  for (const char* value : {"\"2\"", "2.5", "-1", "[1, 2147483648]", "18446744073709551615", "true", "{}", "[[1]]"}) {
    TrainState state;
    state.carried["config.json"] = R"({"eos_token_id": 1})";
    state.carried["generation_config.json"] = std::string(R"({"eos_token_id": )") + value + "}";
    CHECK_THROWS_WITH(stop_ids_of(state), Contains("generation_config.json: eos_token_id: "));
    CHECK_THROWS_AS(stop_ids_of(state), DataError);
  }
  TrainState state;
  state.carried["config.json"] = "{";
  CHECK_THROWS_WITH(stop_ids_of(state), Contains("config.json"));
  CHECK_THROWS_AS(write_companions(fs::temp_directory_path(), spec_of_family("llama"), state, ElementType::f32),
                  DataError);
  state.carried = {{"generation_config.json", R"({"eos_token_id": null})"}, {"config.json", R"({"eos_token_id": 7})"}};
  CHECK(stop_ids_of(state) == Ids{7});
}

TEST_CASE("a sliding window given at import does not replace the published one in an export", "[companions]") {
  TrainState state;
  RunSpec spec = spec_of_family("phi3");
  spec.model.sliding_window = 9;
  state.carried = {{"config.json", R"({"sliding_window": 8})"},
                   {ForeignModel::kOriginName, R"({"format": "hf", "dtype": "F32", "sliding_window": 9})"}};
  const CompanionFolder folder;
  write_companions(folder.path, spec, state, ElementType::f32);
  CHECK(folder.read("config.json")["sliding_window"] == 8);
  spec.model.sliding_window = 12;  // changed since
  write_companions(folder.path, spec, state, ElementType::f32);
  CHECK(folder.read("config.json")["sliding_window"] == 12);
}
