// Import and export of small models of every family, without another program: the export equals what was imported.
#include <catch2/catch.hpp>
#include <cerrno>

#include "base/error.h"
#include "checkpoint/folder.h"
#include "checkpoint/inspect.h"
#include "interop/llmc.h"
#include "interop/tensor_files.h"
#include "interop/transfer.h"
#include "io/readable_file.h"
#include "io/retry.h"
#include "model_folders.h"
#include "support/nobody.h"

using namespace fp;
using test::Folder;
using test::model_of;
using test::tensors_in;

namespace {

namespace fs = std::filesystem;

// Writes a Hugging Face folder of this model with random bytes as bf16 weights; `edit` changes its tensors first.
template <class Edit>
void write_folder(const fs::path& folder, const ModelSection& m, Edit&& edit) {
  ParamTable table;
  declare_parameters(m, table);
  const Layout layout(choose_mapping("", "hf", m.family), m, table);
  SafetensorsHeader header;
  for (const ParamId id : layout.in_order_of_rules())
    header.tensors[layout[id].name()] = {"BF16", layout[id].shape, 0, 0};
  edit(header);
  std::string bytes = lay_out_safetensors(header);
  uint64_t end = 0, state = 1;
  for (const auto& [name, e] : header.tensors) end = std::max(end, e.end);
  for (uint64_t i = 0; i < end; ++i) bytes += static_cast<char>(Philox::mix(state++));
  write_file_atomically(folder / "model.safetensors", bytes);
  write_file_atomically(folder / "config.json", to_hf_config(m).dump());
}
void write_folder(const fs::path& folder, const ModelSection& m) {
  write_folder(folder, m, [](SafetensorsHeader&) {});
}

std::string import_error(const Folder& folder) {
  try {
    import_model({.from = folder / "hf", .to = folder / "bad", .source = {}, .version = "test"});
  } catch (const DataError& e) {
    std::error_code hidden;
    CHECK(!fs::exists(folder / "bad", hidden));
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("an unreadable file or folder is not reported as missing", "[transfer]") {
  const Folder folder;
  fs::permissions(folder.path, fs::perms::all);
  write_folder(folder / "hf", model_of("gpt"));
  const auto closed = [&](const fs::path& path, fs::perms perms) {
    fs::permissions(path, perms);
    std::string error;
    {
      const test::Nobody nobody;
      error = import_error(folder);
    }
    fs::permissions(path, fs::perms::all);
    return error;
  };
  const fs::path hf = folder / "hf";
  CHECK(closed(hf, fs::perms::none) == (hf / "config.json").string() + ": Permission denied");
  CHECK(closed(folder.path, fs::perms::none) == hf.string() + ": Permission denied");
  CHECK(closed(hf / "model.safetensors", fs::perms::none) ==
        (hf / "model.safetensors").string() + ": cannot open: Permission denied");
  fs::rename(hf / "model.safetensors", hf / "weights.safetensors");
  CHECK(closed(hf, fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec) ==
        hf.string() + ": cannot list the folder: Permission denied");
}

TEST_CASE("weights on a failing disk are read again, and are not called bad", "[transfer]") {
  const Folder folder;
  const fs::path hf = folder / "hf";
  write_folder(hf, model_of("gpt"));
  int failures = 0;
  set_retry_wait([](std::chrono::milliseconds) {});
  set_read_call([&](int descriptor, void* to, size_t bytes, off_t at) -> ssize_t {
    if (failures-- <= 0) return ::pread(descriptor, to, bytes, at);
    errno = EIO;
    return -1;
  });
  std::vector<std::byte> some(16);
  failures = 3;
  const TensorFiles files = TensorFiles::open_safetensors(hf);
  CHECK(failures < 0);
  failures = 3;
  files.read(0, 0, some);
  CHECK(failures < 0);
  failures = 1'000'000;
  CHECK_THROWS_AS(files.read(0, 0, some), InfrastructureError);
  CHECK_THROWS_AS(TensorFiles::open_safetensors(hf), InfrastructureError);
  CHECK_THROWS_AS(is_llmc_model(hf / "model.safetensors"), InfrastructureError);
  set_read_call({});
  set_retry_wait({});
  CHECK_THROWS_AS(files.read(0, fs::file_size(hf / "model.safetensors") - 15, some), DataError);
}

TEST_CASE("an imported model of every family is exported byte for byte", "[transfer]") {
  for (const std::string& name : test::tiny_names()) {
    CAPTURE(name);
    const Folder folder;
    write_folder(folder / "hf", model_of(name));
    import_model({.from = folder / "hf", .to = folder / "checkpoint", .source = {}, .version = "test"});
    const Checkpoint checkpoint = open_checkpoint_at(folder / "checkpoint");
    verify_tensors(checkpoint);
    for (const uint64_t shard_bytes : {uint64_t{1} << 40, uint64_t{3000}}) {
      const fs::path out = folder / ("out" + std::to_string(shard_bytes));
      const ExportSummary s = export_model(checkpoint, {.to = out, .type = {}, .shard_bytes = shard_bytes});
      CHECK((s.files == 1) == (shard_bytes > 3000));
      CHECK(fs::exists(out / "model.safetensors.index.json") == (s.files > 1));
      const bool same = tensors_in(folder / "hf") == tensors_in(out);
      CHECK(same);
      const ModelSection back = model_from_hf_config(read_file(out / "config.json"), "config.json");
      CHECK(back.layers == model_of(name).layers);
    }
    CHECK_THROWS_AS(export_model(checkpoint, {.to = folder / "hf", .type = {}}), ConfigError);
  }
}

TEST_CASE("every problem of a foreign model is listed", "[transfer]") {
  const Folder folder;
  const ModelSection m = model_of("llama");
  write_folder(folder / "hf", m, [](SafetensorsHeader& h) {
    h.tensors.erase("model.norm.weight");
    h.tensors["stray"] = {"F32", {2}, 0, 0};
    h.tensors["model.embed_tokens.weight"].shape[0] -= 1;
    h.tensors["model.layers.0.mlp.up_proj.weight"].dtype = "I16";
  });
  const std::string said = import_error(folder);
  for (const char* part :
       {"model.norm.weight", "is missing", "stray [2] belongs to no parameter", "the model needs", "dtype I16"}) {
    INFO(said);
    CHECK(said.find(part) != std::string::npos);
  }
}

TEST_CASE("an index must agree with its files", "[transfer]") {
  const Folder folder;
  write_folder(folder / "hf", model_of("llama"));
  const auto index = [&](const std::string& text) {
    write_file_atomically(folder / "hf/model.safetensors.index.json", text);
    return import_error(folder);
  };
  CHECK(index("{}").find("weight_map") != std::string::npos);
  CHECK(index(R"({"weight_map": {"a": "../model.safetensors"}})").find("same folder") != std::string::npos);
  CHECK(index(R"({"weight_map": {"a": "model.safetensors"}})").find("does not contain it") != std::string::npos);
  CHECK(index(R"({"weight_map": {"a": "none.safetensors"}})").find("none.safetensors") != std::string::npos);
}

TEST_CASE("truncated files and folders without a model are refused", "[transfer]") {
  const Folder folder;
  write_folder(folder / "hf", model_of("gpt"));
  fs::resize_file(folder / "hf/model.safetensors", fs::file_size(folder / "hf/model.safetensors") - 1);
  CHECK(import_error(folder).find("data") != std::string::npos);
  fs::remove(folder / "hf/config.json");
  CHECK(import_error(folder).find("no config.json") != std::string::npos);
  fs::remove_all(folder / "hf");
  CHECK(import_error(folder).find("does not exist") != std::string::npos);
}
