#include "operands.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>

#include "base/parallel.h"
#include "compare.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) (static_cast<void>(address), static_cast<void>(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) (static_cast<void>(address), static_cast<void>(bytes))
#endif

namespace fp::test {
namespace {

constexpr size_t kGuard = 256;
constexpr std::byte kPoison{0xff};  // NaN in every floating-point format, -1 as an index

std::vector<std::byte> encode(const Operand& o) {
  std::vector<std::byte> bytes(o.value.size() * size_of(o.dtype));
  for (size_t i = 0; i < o.value.size(); ++i) {
    std::byte* at = bytes.data() + i * size_of(o.dtype);
    const auto put = [at](auto x) { std::memcpy(at, &x, sizeof(x)); };
    if (o.dtype == DType::bf16) put(bf16(static_cast<float>(o.value[i])));
    if (o.dtype == DType::f32) put(static_cast<float>(o.value[i]));
    if (o.dtype == DType::i32) put(static_cast<int32_t>(o.value[i]));
  }
  return bytes;
}

std::vector<double> decode(const std::vector<std::byte>& bytes, DType dtype) {
  std::vector<double> values(bytes.size() / size_of(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    const std::byte* at = bytes.data() + i * size_of(dtype);
    const auto get = [at](auto x) {
      std::memcpy(&x, at, sizeof(x));
      return x;
    };
    if (dtype == DType::bf16) values[i] = get(bf16{});
    if (dtype == DType::f32) values[i] = get(0.0f);
    if (dtype == DType::i32) values[i] = get(int32_t{0});
  }
  return values;
}

// Returns the worst element of a result as text; empty when all are within their bounds.
std::string compare(const Operand& o, const std::vector<double>& result) {
  size_t bad = 0, worst = 0;
  double worst_excess = -1.0;
  for (size_t i = 0; i < result.size(); ++i) {
    const double bound = o.bound.empty() ? 0.0 : o.bound[i];
    if (close(result[i], o.expected[i], bound, o.dtype)) continue;
    const double excess = std::abs(result[i] - o.expected[i]) / (bound + spacing(o.expected[i], o.dtype));
    if (bad++ == 0 || !(excess <= worst_excess)) {
      worst = i;
      worst_excess = excess;
    }
  }
  if (bad == 0) return {};
  return fmt::format("{} {} {}: {} of {} elements are off, worst at {}: {:.9g}, expected {:.9g}, bound {:.3g}", o.name,
                     name_of(o.dtype), o.shape.str(), bad, result.size(), worst, result[worst], o.expected[worst],
                     o.bound.empty() ? 0.0 : o.bound[worst]);
}

}  // namespace

Fill scaled(double factor) {
  return [factor](double normal, int64_t) { return factor * normal; };
}
Fill constant(double value) {
  return [value](double, int64_t) { return value; };
}

void Operand::fill(const Fill& f, uint32_t stream) {
  const Philox::Key key = Philox::key(stream, Purpose::init);
  for (int64_t i = 0; i < elements(); ++i) {
    const auto words = Philox::block({static_cast<uint32_t>(i), 0, 0, 0}, key);
    value[static_cast<size_t>(i)] = f(Philox::normal(words[0], words[1])[0], i);
  }
  value = decode(encode(*this), dtype);
}

// The operands of a case in the memory of one backend, each between guards.
class Case::Placement {
 public:
  Placement(std::deque<Operand>& operands, const Backend& backend, bool aligned)
      : operands_(operands), backend_(backend) {
    for (size_t i = 0; i < operands_.size(); ++i) {
      Operand& o = operands_[i];
      Block block;
      block.front = kGuard + (i % 2 && !aligned ? size_of(o.dtype) : 0);
      block.bytes = static_cast<size_t>(o.elements()) * size_of(o.dtype);
      block.total = block.front + block.bytes + kGuard;
      if (left_out(o)) {
        blocks_.push_back({});
        continue;
      }
      block.memory = backend_.allocate(block.total);
      block.before.assign(block.total, kPoison);
      if (o.role != Role::output)
        std::ranges::copy(encode(o), block.before.begin() + static_cast<int64_t>(block.front));
      backend_.ops->copy_in({block.whole(), block.before.data()});
      o.tensor = Tensor(static_cast<std::byte*>(block.memory.get()) + block.front, o.dtype, o.shape);
      if (o.role == Role::output) backend_.mark(o.tensor.data, block.bytes, Mark::unwritten);
      blocks_.push_back(std::move(block));
      guard(blocks_.back(), true);
    }
  }
  ~Placement() {
    for (const Block& block : blocks_) guard(block, false);
    for (Operand& o : operands_) o.tensor = {};
  }
  Placement(const Placement&) = delete;
  Placement& operator=(const Placement&) = delete;

  // Returns the bytes of operand i after the call. Checks that memory outside destinations is unchanged.
  std::vector<std::byte> read_back(size_t i) const {
    const Block& block = blocks_[i];
    const Operand& o = operands_[i];
    if (left_out(o)) return {};
    guard(block, false);
    std::vector<std::byte> now(block.total);
    backend_.ops->copy_out({now.data(), block.whole()});
    guard(block, true);
    const auto begin = static_cast<int64_t>(block.front), end = begin + static_cast<int64_t>(block.bytes);
    INFO("operand " << o.name);
    CHECK(std::equal(now.begin(), now.begin() + begin, block.before.begin()));
    CHECK(std::equal(now.begin() + end, now.end(), block.before.begin() + end));
    if (o.role == Role::input) CHECK(std::equal(now.begin() + begin, now.begin() + end, block.before.begin() + begin));
    return {now.begin() + begin, now.begin() + end};
  }

 private:
  struct Block {
    std::shared_ptr<void> memory;
    size_t front = 0, bytes = 0, total = 0;
    std::vector<std::byte> before;
    Tensor whole() const { return {memory.get(), DType::u8, {static_cast<int64_t>(total)}}; }
  };

  static bool left_out(const Operand& o) { return o.shape.rank() == 0; }

  // Under the address sanitizer reading a guard is an error, too.
  void guard(const Block& block, bool on) const {
    if (block.memory == nullptr) return;
    auto* base = static_cast<std::byte*>(block.memory.get());
    backend_.mark(base, block.front, on ? Mark::forbidden : Mark::allowed);
    backend_.mark(base + block.front + block.bytes, kGuard, on ? Mark::forbidden : Mark::allowed);
    if (!backend_.host_memory) return;
    if (on) {
      ASAN_POISON_MEMORY_REGION(base, block.front);
      ASAN_POISON_MEMORY_REGION(base + block.front + block.bytes, kGuard);
    } else {
      ASAN_UNPOISON_MEMORY_REGION(base, block.total);
    }
  }

  std::deque<Operand>& operands_;
  const Backend& backend_;
  std::vector<Block> blocks_;
};

Operand& Case::add(const std::string& name, DType dtype, const Shape& shape, Role role) {
  Operand& o = none();
  o.name = name;
  o.dtype = dtype;
  o.shape = shape;
  o.role = role;
  o.value.assign(static_cast<size_t>(o.elements()), std::nan(""));
  return o;
}

Operand& Case::input(const std::string& name, DType dtype, const Shape& shape, const Fill& f) {
  Operand& o = add(name, dtype, shape, Role::input);
  o.fill(f, seed_ * 1000 + static_cast<uint32_t>(operands_.size()));
  return o;
}

Operand& Case::ids(const std::string& name, const Shape& shape, const std::vector<int32_t>& content) {
  Operand& o = add(name, DType::i32, shape, Role::input);
  o.value.assign(content.begin(), content.end());
  FP_CHECK(o.elements() == static_cast<int64_t>(content.size()), "{} ids in {}", content.size(), shape.str());
  return o;
}

Operand& Case::output(const std::string& name, DType dtype, const Shape& shape) {
  return add(name, dtype, shape, Role::output);
}

Operand& Case::inout(const std::string& name, DType dtype, const Shape& shape, const Fill& f) {
  Operand& o = input(name, dtype, shape, f);
  o.role = Role::inout;
  return o;
}

Operand& Case::none() {
  operands_.emplace_back();
  return operands_.back();
}

void Case::run(const Backend& backend, const Call& call, bool aligned) {
  const Placement placement(operands_, backend, aligned);
  backend.ops->weights_changed();
  call(*backend.ops);
  backend.ops->synchronize();
  for (size_t i = 0; i < operands_.size(); ++i)
    operands_[i].result = decode(placement.read_back(i), operands_[i].dtype);
}

void Case::check_backend(const Backend& backend, const Call& call, bool aligned) {
  std::vector<std::vector<double>> first;
  for (const int threads : {1, 2, 2}) {
    INFO(threads << " threads" << (aligned ? ", aligned" : ""));
    set_threads(threads);
    run(backend, call, aligned);
    CHECK(backend.problems() == "");
    for (size_t i = 0; i < operands_.size(); ++i) {
      const Operand& o = operands_[i];
      if (o.role == Role::input) continue;
      CHECK(compare(o, o.result) == "");
      INFO("operand " << o.name << " from run to run");
      if (first.size() == operands_.size() && !o.result.empty())
        CHECK(std::memcmp(first[i].data(), o.result.data(), o.result.size() * sizeof(double)) == 0);
    }
    if (first.empty())
      for (const Operand& o : operands_) first.push_back(o.result);
    if (!backend.host_memory && threads == 2) break;  // a device has no number of threads to set
  }
  set_threads(0);
}

void Case::check(const Call& call, const std::function<void(const Backend&)>& after) {
  run(oracle(), call);
  for (Operand& o : operands_) o.expected = o.result;
  for (const Backend& backend : backends()) {
    INFO("backend " << backend.name);
    check_backend(backend, call, false);
    if (backend.both_alignments) check_backend(backend, call, true);
    if (after) after(backend);
  }
}

}  // namespace fp::test
