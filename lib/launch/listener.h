// Rank 0's listening sockets: one port on some of its host's addresses, open only while a connection is expected.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/channel.h"

namespace fp {

class Listener {
 public:
  // Opens a port chosen by the system, the same one on each of these numeric addresses. Addresses that fail are left
  // out; throws InfrastructureError, with the system's reason, when all fail.
  explicit Listener(const std::vector<std::string>& addresses);

  uint16_t port() const { return port_; }
  // The addresses that it is bound to.
  std::vector<std::string> addresses() const;
  bool is_open() const { return open_; }
  // Stops accepting: waiting connections are reset, new ones refused. The port stays reserved for this process.
  // Addresses for which keep() was not called are given up for good.
  void close();
  // Listens again after close(). Returns false with errno when the system does not allow it now.
  bool open();

  std::vector<int> fds() const;  // to wait for; empty while closed
  struct Visitor {
    FileDescriptor socket;
    size_t door;  // index of the listening socket, for keep()
  };
  // Accepts a waiting connection. Returns nullopt with `error` 0 when none is waiting, else with the errno of
  // accept(2).
  std::optional<Visitor> accept(int& error);
  // Keeps the address of this door at close(): a rank has connected to it.
  void keep(size_t door) { doors_[door].kept = true; }

 private:
  struct Door {
    std::string address;
    FileDescriptor socket;
    bool kept = false;
  };
  bool bind_all(const std::vector<std::string>& addresses, uint16_t port);

  std::vector<Door> doors_;
  size_t next_ = 0;  // the door that accept() tries first
  uint16_t port_ = 0;
  bool open_ = false;
};

}  // namespace fp
