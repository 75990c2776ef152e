// Messages over TCP: a listener, connections that carry lines, and a mailbox from one thread to another. Whoever waits
// polls their descriptors.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "launch/message.h"

namespace fp {

// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();
  int get() const { return fd_; }

 private:
  int fd_;
};

// A connection that never blocks. It breaks when the peer is gone: at once when its process ends, within a minute when
// its host does.
class PeerChannel {
 public:
  explicit PeerChannel(Descriptor socket);
  int fd() const { return socket_.get(); }

  // What does not go out now goes out with later calls.
  void send(const PeerMessage&);
  bool backed_up() const { return !out_.empty(); }
  // closed: by the peer, as when its process ends, and nothing more will come. broken: by what lies between, a reset or
  // a peer out of reach.
  enum class State { open, closed, broken };
  // Adds the messages that have come.
  State receive(std::vector<PeerMessage>& messages);
  void finish_sending();  // the peer reads what was sent, then the end

 private:
  Descriptor socket_;
  std::string in_, out_;
  bool broken_ = false;
};

// Where rank 0 can be met.
class Listener {
 public:
  Listener();  // on a port of the system's choice, on all interfaces; InfrastructureError where there is none
  int fd() const { return socket_.get(); }
  const std::string& token() const { return token_; }
  // For connect(): port, token, machine, then addresses, between blanks.
  std::string address() const;
  Descriptor accept();  // -1: nobody is there

 private:
  Descriptor socket_;
  std::string token_;
};

// Connects to a listener and says `hello`, whose first field becomes the token. InfrastructureError naming what was
// tried.
struct Greeting {
  std::unique_ptr<PeerChannel> channel;
  std::vector<PeerMessage> answers;  // the first is a "welcome"
};
Greeting connect(const std::string& address, PeerMessage hello, double timeout_s);

// Where a connection that broke had led to.
class FormerPeer {
 public:
  explicit FormerPeer(const PeerChannel&);  // while it works
  // A new connection to it; nothing where none could be made in this time, and `refused` tells whether that is because
  // nobody listens there any more.
  std::unique_ptr<PeerChannel> connect(double timeout_s, bool& refused) const;

 private:
  std::vector<char> address_;  // a sockaddr
};

// The token in a listener's address.
std::string token_of(const std::string& address);

// Messages from one thread of a process to another.
class Mailbox {
 public:
  Mailbox();
  int fd() const { return wake_.get(); }
  void post(PeerMessage);
  std::vector<PeerMessage> take();

 private:
  std::mutex mutex_;
  std::vector<PeerMessage> messages_;
  Descriptor wake_;
};

// Waits until one of these has something to read, or is broken, or the time is over. Those that have, ascending.
std::vector<int> wait_readable(const std::vector<int>& fds, double timeout_s);

}  // namespace fp
