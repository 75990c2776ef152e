// Preloaded into fptrain: stops rank 1 just before it joins the lifeline, for which rank 0 listens.
#include <dlfcn.h>
#include <signal.h>
#include <sys/socket.h>

#include <cstdlib>
#include <string_view>

extern "C" int socket(int domain, int type, int protocol) noexcept {
  static bool stopped = false;
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  // MPI does not create sockets of this kind.
  const bool of_lifeline = domain == AF_INET && type == (SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (of_lifeline && !stopped && rank != nullptr && std::string_view(rank) == "1") {
    stopped = true;
    ::raise(SIGSTOP);
  }
  return reinterpret_cast<int (*)(int, int, int)>(::dlsym(RTLD_NEXT, "socket"))(domain, type, protocol);
}
