// Messages over TCP between ranks that have authenticated each other, and a mailbox from one thread to another. To wait
// for either, poll their descriptors.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"
#include "launch/message.h"
#include "launch/proof.h"

namespace fp {

// A non-blocking connection. It breaks when the peer is gone: at once when its process ends, within a minute when its
// host is lost. Nothing is sent to a peer, or accepted from it, before it has proven that it knows the token.
class PeerChannel {
 public:
  // Maximum number of bytes accepted from a peer before it is authenticated.
  static constexpr size_t kMostUnproven = 4096;

  PeerChannel(FileDescriptor socket, LifelineEnd self, const Token& token);
  int fd() const { return socket_.get(); }

  // Sends a message. Bytes that cannot be sent now are sent by later calls, and by flush(); messages posted before the
  // peer is authenticated are sent once it is.
  void send(const PeerMessage&);
  bool backed_up() const { return !out_.empty(); }
  void flush();  // sends what earlier calls of send() could not
  bool proven() const { return handshake_.proven(); }
  // closed: by the peer, as when its process ends; nothing more will come. broken: by the network: a reset, an
  // unreachable peer, or a line that the peer did not send. unauthenticated: the peer failed to prove that it knows the
  // token.
  enum class State { open, closed, broken, unauthenticated };
  // Appends the messages that have arrived.
  State receive(std::vector<PeerMessage>& messages);
  void finish_sending();  // the peer reads what was sent, then end of file
  // Size of the receive and send buffers in bytes.
  size_t held_bytes() const { return in_.size() + out_.size(); }

 private:
  State take_lines(size_t searched, std::vector<PeerMessage>& messages);
  bool take_line(std::string_view line, std::vector<PeerMessage>& messages);

  FileDescriptor socket_;
  Handshake handshake_;
  std::optional<LineSeal> sent_, received_;  // set once the peer is authenticated
  std::vector<PeerMessage> early_;           // sent then
  std::string in_, out_;
  size_t unproven_bytes_ = 0;
  bool broken_ = false;
};

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
  FileDescriptor wake_;
};

// Waits until one of the descriptors is readable or broken, or until the timeout. Returns those that are, in ascending
// order.
std::vector<int> wait_readable(const std::vector<int>& fds, double timeout_s);

}  // namespace fp
