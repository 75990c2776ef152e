// A libnccl.so.2 without a GPU: ranks are threads of this process, tensors are host memory, a stream is a thread that
// executes its queue. It is as strict as NCCL may be: calls on a non-blocking communicator return "in progress", a
// second call before that has been polled is refused, a send ends only when it is received, and the first of two ranks
// stays in progress until both have connected.
#include "nccl_stub.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "base/dtype.h"

// One end of a connection: communicator, sender, receiver, and whether it is the sender's end.
using End = std::tuple<std::string, int, int, bool>;

struct ncclComm {
  std::string id;
  int rank, size, in_progress = 2;
  std::set<End> awaited = {};
};

namespace {

using Work = std::function<void()>;

struct Stream {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Work> works;
  uint64_t put = 0, done = 0;

  void add(Work work) {
    const std::lock_guard lock(mutex);
    works.push_back(std::move(work));
    ++put;
    changed.notify_all();
  }
  [[noreturn]] void run() {
    for (std::unique_lock lock(mutex);;) {
      changed.wait(lock, [&] { return !works.empty(); });
      const Work work = std::move(works.front());
      works.pop_front();
      lock.unlock();
      work();
      lock.lock();
      ++done;
      changed.notify_all();
    }
  }
};

// Messages by communicator, sender and receiver; `taken` counts those that have been received.
struct Box {
  std::deque<std::vector<char>> messages;
  uint64_t sent = 0, taken = 0;
};
std::mutex mutex;
std::condition_variable changed;
std::map<std::tuple<std::string, int, int>, Box> boxes;
std::set<End> ends;
std::atomic<int> aborted{0}, ids{0};
std::atomic<bool> fail_next{false};
std::vector<nccl_stub_call> calls;
thread_local int depth = 0;
thread_local std::vector<Work> sends, recvs;
thread_local ncclComm* group_comm = nullptr;
thread_local Stream* group_stream = nullptr;

size_t bytes_of(ncclDataType_t t) { return t == ncclBfloat16 ? 2 : t == ncclUint8 ? 1 : 4; }

uint64_t post(const ncclComm& c, int to, const void* data, size_t bytes) {
  const std::lock_guard lock(mutex);
  Box& box = boxes[{c.id, c.rank, to}];
  box.messages.emplace_back(static_cast<const char*>(data), static_cast<const char*>(data) + bytes);
  changed.notify_all();
  return ++box.sent;
}

void wait_taken(const ncclComm& c, int to, uint64_t number) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return boxes[{c.id, c.rank, to}].taken >= number; });
}

std::vector<char> take(const ncclComm& c, int from) {
  std::unique_lock lock(mutex);
  Box& box = boxes[{c.id, from, c.rank}];
  changed.wait(lock, [&] { return !box.messages.empty(); });
  std::vector<char> message = std::move(box.messages.front());
  box.messages.pop_front();
  ++box.taken;
  changed.notify_all();
  return message;
}

std::vector<std::vector<char>> gather(const ncclComm& c, const void* mine, size_t bytes) {
  std::vector<std::vector<char>> all;
  for (int r = 0; r < c.size; ++r) post(c, r, mine, bytes);
  for (int r = 0; r < c.size; ++r) all.push_back(take(c, r));
  return all;
}

// Reduces elements [first, first + count) of all ranks in rank order, rounded once.
template <class T>
void reduce(T* to, const std::vector<std::vector<char>>& all, size_t first, size_t count, ncclRedOp_t op) {
  for (size_t i = 0; i < count; ++i) {
    float sum = 0;
    for (size_t r = 0; r < all.size(); ++r) {
      const float v = reinterpret_cast<const T*>(all[r].data())[first + i];
      sum = r == 0 ? v : op == ncclSum ? sum + v : v > sum || v != v ? v : sum;
    }
    to[i] = static_cast<T>(sum);
  }
}

void reduce_any(void* to, const std::vector<std::vector<char>>& all, size_t first, size_t count, ncclDataType_t t,
                ncclRedOp_t op) {
  if (t == ncclBfloat16)
    reduce(static_cast<fp::bf16*>(to), all, first, count, op);
  else
    reduce(static_cast<float*>(to), all, first, count, op);
}

void connect(ncclComm& c, int from, int to) {
  if (from == to) return;
  const std::lock_guard lock(mutex);
  ends.insert({c.id, from, to, c.rank == from});
  c.awaited.insert({c.id, from, to, c.rank != from});
}

bool connected(ncclComm& c) {
  const std::lock_guard lock(mutex);
  std::erase_if(c.awaited, [](const End& e) { return ends.count(e) > 0; });
  return c.awaited.empty();
}

// Checks that a call on the communicator is allowed now; else returns the error.
ncclResult_t admit(ncclComm* c) {
  if (c->in_progress > 0 && group_comm != c) return ncclInvalidUsage;
  if (fail_next.exchange(false)) return ncclRemoteError;
  return ncclSuccess;
}

void note(const ncclComm* c, cudaStream_t stream, const char* kind, size_t elements) {
  const std::lock_guard lock(mutex);
  calls.push_back({std::hash<std::thread::id>()(std::this_thread::get_id()), stream, std::stoi(c->id), kind, elements});
}

ncclResult_t put(ncclComm* c, cudaStream_t stream, Work work, const char* kind, size_t elements) {
  if (const ncclResult_t r = admit(c); r != ncclSuccess) return r;
  note(c, stream, kind, elements);
  reinterpret_cast<Stream*>(stream)->add(std::move(work));
  c->in_progress = 2;
  return ncclInProgress;
}

// Sends and receives of an NCCL group run at the same time.
ncclResult_t put_pair(ncclComm* c, cudaStream_t stream, std::vector<Work>& queue, Work work, const char* kind,
                      size_t elements) {
  if (depth == 0) return put(c, stream, std::move(work), kind, elements);
  if (group_comm == nullptr)
    if (const ncclResult_t r = admit(c); r != ncclSuccess) return r;
  group_comm = c;
  group_stream = reinterpret_cast<Stream*>(stream);
  queue.push_back(std::move(work));
  return ncclSuccess;
}

}  // namespace

cudaStream_t nccl_stub_stream() {
  auto* stream = new Stream;  // never freed: its thread runs until the process ends
  std::thread([stream] { stream->run(); }).detach();
  return reinterpret_cast<cudaStream_t>(stream);
}
uint64_t nccl_stub_mark(cudaStream_t s) {
  auto* stream = reinterpret_cast<Stream*>(s);
  const std::lock_guard lock(stream->mutex);
  return stream->put;
}
void nccl_stub_wait(cudaStream_t s, uint64_t mark) {
  auto* stream = reinterpret_cast<Stream*>(s);
  std::unique_lock lock(stream->mutex);
  stream->changed.wait(lock, [=] { return stream->done >= mark; });
}
size_t nccl_stub_calls(nccl_stub_call* out, size_t most) {
  const std::lock_guard lock(mutex);
  std::copy_n(calls.begin(), std::min(most, calls.size()), out);
  return calls.size();
}
void nccl_stub_forget_calls() {
  const std::lock_guard lock(mutex);
  calls.clear();
}
void nccl_stub_fail_next() { fail_next = true; }
int nccl_stub_aborted() { return aborted; }

const char* ncclGetErrorString(ncclResult_t r) { return r == ncclRemoteError ? "remote error" : "an error"; }
const char* ncclGetLastError(ncclComm_t) { return "the peer has gone"; }
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::memset(id, 0, sizeof(*id));
  std::strcpy(id->internal, std::to_string(++ids).c_str());
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (config->blocking != 0) return ncclInvalidUsage;
  *comm = new ncclComm{id.internal, rank, size};
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t* state) {
  *state = c->in_progress > 0 || !connected(*c) ? ncclInProgress : ncclSuccess;
  if (c->in_progress > 0) --c->in_progress;
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t c) {
  c->in_progress = 2;
  return ncclInProgress;
}
ncclResult_t ncclCommDestroy(ncclComm_t) { return ncclSuccess; }  // not freed: streams may still refer to it
ncclResult_t ncclCommAbort(ncclComm_t) {
  ++aborted;
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t n, ncclDataType_t t, ncclRedOp_t op, ncclComm_t c,
                           cudaStream_t s) {
  return put(
      c, s, [=] { reduce_any(to, gather(*c, from, n * bytes_of(t)), 0, n, t, op); }, "all_reduce", n);
}
ncclResult_t ncclReduceScatter(const void* from, void* to, size_t n, ncclDataType_t t, ncclRedOp_t op, ncclComm_t c,
                               cudaStream_t s) {
  const auto work = [=] {
    const size_t size = static_cast<size_t>(c->size), rank = static_cast<size_t>(c->rank);
    reduce_any(to, gather(*c, from, size * n * bytes_of(t)), rank * n, n, t, op);
  };
  return put(c, s, work, "reduce_scatter", n);
}
ncclResult_t ncclAllGather(const void* from, void* to, size_t n, ncclDataType_t t, ncclComm_t c, cudaStream_t s) {
  const auto work = [=] {
    char* at = static_cast<char*>(to);
    for (const std::vector<char>& part : gather(*c, from, n * bytes_of(t)))
      at = std::copy(part.begin(), part.end(), at);
  };
  return put(c, s, work, "all_gather", n);
}
ncclResult_t ncclBroadcast(const void* from, void* to, size_t n, ncclDataType_t t, int root, ncclComm_t c,
                           cudaStream_t s) {
  const auto work = [=] {
    const auto all = gather(*c, from, c->rank == root ? n * bytes_of(t) : 0);
    std::copy(all[static_cast<size_t>(root)].begin(), all[static_cast<size_t>(root)].end(), static_cast<char*>(to));
  };
  return put(c, s, work, "broadcast", n);
}
ncclResult_t ncclSend(const void* from, size_t n, ncclDataType_t t, int peer, ncclComm_t c, cudaStream_t s) {
  const bool alone = depth == 0;
  connect(*c, c->rank, peer);
  const auto work = [=] {
    const uint64_t number = post(*c, peer, from, n * bytes_of(t));
    if (alone) wait_taken(*c, peer, number);
  };
  return put_pair(c, s, sends, work, "send", n);
}
ncclResult_t ncclRecv(void* to, size_t n, ncclDataType_t t, int peer, ncclComm_t c, cudaStream_t s) {
  connect(*c, peer, c->rank);
  const auto work = [=] {
    const std::vector<char> message = take(*c, peer);
    if (message.size() == n * bytes_of(t)) std::copy(message.begin(), message.end(), static_cast<char*>(to));
  };
  return put_pair(c, s, recvs, work, "recv", n);
}
ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (--depth > 0 || group_comm == nullptr) return ncclSuccess;
  note(group_comm, reinterpret_cast<cudaStream_t>(group_stream), "group", 0);
  group_stream->add([all_sends = std::move(sends), all_recvs = std::move(recvs)] {
    for (const Work& send : all_sends) send();
    for (const Work& recv : all_recvs) recv();
  });
  sends.clear();
  recvs.clear();
  group_comm->in_progress = 2;
  group_comm = nullptr;
  return ncclInProgress;
}
