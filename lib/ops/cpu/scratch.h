// Temporary memory of ops: buffers that are kept and lent again, so that a training step allocates nothing.
// Thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace fp::cpu {

class ScratchPool {
 public:
  static constexpr size_t kAlignment = 64;

  // A buffer on loan; given back when it goes.
  class Loan {
   public:
    Loan(ScratchPool& pool, std::byte* data, size_t bytes) : pool_(pool), data_(data), bytes_(bytes) {}
    ~Loan() { pool_.give_back(data_, bytes_); }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    std::byte* data() const { return data_; }
    template <class T>
    T* as() const {
      return reinterpret_cast<T*>(data_);
    }

   private:
    ScratchPool& pool_;
    std::byte* data_;
    size_t bytes_;
  };

  ScratchPool() = default;
  ~ScratchPool();
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;

  // At least `bytes` uninitialised bytes. A kept buffer that is too small is replaced, so that the pool holds as many
  // buffers as were ever on loan at once.
  Loan lend(size_t bytes);

 private:
  void give_back(std::byte* data, size_t bytes);

  std::mutex mutex_;
  std::vector<std::pair<std::byte*, size_t>> free_;
};

}  // namespace fp::cpu
