#include "data/text/byte_source.h"

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/error.h"
#include "base/memory_error.h"
#include "io/filesystem.h"
#include "io/readable_file.h"
#include "io/retry.h"

namespace fp {
namespace {

class PlainSource : public ByteSource {
 public:
  explicit PlainSource(const std::filesystem::path& path) : file_(path) {}
  size_t read(std::span<char> out) override {
    const size_t n = file_.read(position_, std::as_writable_bytes(out));
    position_ += n;
    return n;
  }
  uint64_t position() const override { return position_; }

 private:
  ReadableFile file_;
  uint64_t position_ = 0;
};

class GzipSource : public ByteSource {
 public:
  explicit GzipSource(const std::filesystem::path& path) : path_(path) {
    with_retries([this] { open(); });
  }
  size_t read(std::span<char> out) override {
    size_t total = 0;
    while (total < out.size()) {
      const auto want = static_cast<unsigned>(std::min(out.size() - total, size_t{1} << 30));
      const int n = with_retries([&] {
        if (!file_) open();
        const int got = gzread(file_.get(), out.data() + total, want);
        fail_if_unreadable();
        return got;
      });
      int error = Z_OK;
      const char* message = gzerror(file_.get(), &error);
      if (error == Z_MEM_ERROR) throw MemoryError(path_.string() + ": memory ran out while expanding it");
      // gzread reports a truncated stream as Z_BUF_ERROR at the end of the file.
      if (n < 0 || error != Z_OK)
        throw DataError(
            fmt::format("{}: truncated or damaged gzip data near byte {}: {}", path_.string(), position(), message));
      if (n == 0) break;
      total += static_cast<size_t>(n);
      expanded_ += n;
    }
    return total;
  }
  uint64_t position() const override { return static_cast<uint64_t>(std::max<z_off_t>(gzoffset(file_.get()), 0)); }

 private:
  // Opens the file, and continues after what was expanded.
  void open() {
    file_.reset(gzopen(path_.c_str(), "rb"));
    if (!file_) fail_reading("open", path_, errno);
    gzbuffer(file_.get(), 1 << 18);
    const bool direct = gzdirect(file_.get()) != 0;
    fail_if_unreadable();
    if (direct) throw DataError(fmt::format("{}: not a gzip file, despite its name", path_.string()));
    if (expanded_ > 0) gzseek(file_.get(), expanded_, SEEK_SET);
  }
  // Closes the file after a failure to read it: zlib has lost the bytes that it read before.
  void fail_if_unreadable() {
    const int reason = errno;
    int error = Z_OK;
    gzerror(file_.get(), &error);
    if (error != Z_ERRNO) return;
    file_.reset();
    fail_reading("read", path_, reason);
  }
  struct Close {
    void operator()(gzFile_s* file) const { gzclose(file); }
  };
  std::filesystem::path path_;
  std::unique_ptr<gzFile_s, Close> file_;
  z_off_t expanded_ = 0;  // bytes
};

class ZstdSource : public ByteSource {
 public:
  static constexpr int kLongestWindow = 27;  // log2 of the maximum window of a frame in bytes

  explicit ZstdSource(const std::filesystem::path& path)
      : path_(path), compressed_(path), stream_(ZSTD_createDStream()), buffer_(ZSTD_DStreamInSize()) {
    if (stream_ == nullptr) throw std::bad_alloc();
    const size_t rc = ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, kLongestWindow);
    FP_CHECK(!ZSTD_isError(rc), "zstd takes no limit of its window: {}", ZSTD_getErrorName(rc));
  }
  size_t read(std::span<char> out) override {
    ZSTD_outBuffer target{out.data(), out.size(), 0};
    while (target.pos < target.size) {
      if (input_.pos == input_.size) {
        input_ = {buffer_.data(), compressed_.read(buffer_), 0};
        if (input_.size == 0 && frame_open_) fail("it ends in the middle of a frame");
        if (input_.size == 0) break;
      }
      const size_t rc = ZSTD_decompressStream(stream_.get(), &target, &input_);
      if (ZSTD_isError(rc)) fail(rc);
      frame_open_ = rc != 0;
    }
    return target.pos;
  }
  uint64_t position() const override { return compressed_.position(); }

 private:
  [[noreturn]] void fail(size_t error) const {
    const ZSTD_ErrorCode code = ZSTD_getErrorCode(error);
    if (code == ZSTD_error_frameParameter_windowTooLarge)
      throw DataError(
          fmt::format("{}: expanding it takes a window of more than {} MiB; legal: up to that, as `zstd "
                      "--long={}` makes it",
                      path_.string(), (1 << kLongestWindow) >> 20, kLongestWindow));
    if (code == ZSTD_error_memory_allocation)
      throw MemoryError(fmt::format("{}: memory ran out: expanding it takes a window of up to {} MiB", path_.string(),
                                    (1 << kLongestWindow) >> 20));
    fail(ZSTD_getErrorName(error));
  }
  [[noreturn]] void fail(const char* reason) const {
    throw DataError(
        fmt::format("{}: truncated or damaged Zstandard data near byte {}: {}", path_.string(), position(), reason));
  }
  struct Free {
    void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
  };
  std::filesystem::path path_;
  PlainSource compressed_;
  std::unique_ptr<ZSTD_DStream, Free> stream_;
  std::vector<char> buffer_;
  ZSTD_inBuffer input_{nullptr, 0, 0};
  bool frame_open_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> open_source(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!path_exists(path)) throw DataError(fmt::format("{}: no such file", path.string()));
  if (!std::filesystem::is_regular_file(status)) throw DataError(fmt::format("{}: not a regular file", path.string()));
  // An empty file is not a valid gzip stream, but is accepted as an empty text.
  if (std::filesystem::file_size(path) == 0) return std::make_unique<PlainSource>(path);
  if (path.extension() == ".gz") return std::make_unique<GzipSource>(path);
  if (path.extension() == ".zst") return std::make_unique<ZstdSource>(path);
  return std::make_unique<PlainSource>(path);
}

}  // namespace fp
