// Authentication of the lifeline: the two ends of a connection prove to each other that they know the job's token, and
// every later line proves that the other end sent it, in this order. The token itself is never sent.
//
//   spoke -> hub   challenge  NS
//   hub -> spoke   proof      NH  HMAC(token, "hub", NS, NH)
//   spoke -> hub   proof      HMAC(token, "spoke", NS, NH)
//
// NS and NH are 256 fresh random bits each, so a recorded proof cannot be replayed, and the names of the ends keep a
// proof from being reflected. Each later line begins with 32 hexadecimal digits: HMAC(key, number of lines before it,
// line), truncated to 128 bits, with the key HMAC(token, "lines of the hub" or "lines of the spoke", NS, NH). HMAC is
// libsodium's HMAC-SHA256. Lines are not encrypted: others on the network can read phases, steps and host names, as in
// the log.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "launch/message.h"

namespace fp {

enum class LifelineEnd { hub, spoke };

using SecretKey = std::array<unsigned char, 32>;
using Nonce = std::array<unsigned char, 32>;

// The secret shared by the ranks of one job. Rank 0 creates it, and MPI distributes it.
class Token {
 public:
  Token();                                // 256 random bits
  explicit Token(std::string_view text);  // InternalError unless it is the text() of another
  std::string text() const;               // hexadecimal digits
  const SecretKey& key() const { return key_; }

 private:
  SecretKey key_{};
};

// Authenticates the lines of one direction: adds a mark (a MAC) at the sender, checks it at the receiver.
class LineSeal {
 public:
  explicit LineSeal(const SecretKey& key) : key_(key) {}
  // Returns the line with its mark prepended.
  std::string sign(std::string_view line);
  // Returns the line without its mark; nullopt unless it is the next line that the other end has sent.
  std::optional<std::string_view> verify(std::string_view marked);

 private:
  std::string mark_of_next(std::string_view line) const;

  SecretKey key_;
  uint64_t count_ = 0;
};

class Handshake {
 public:
  Handshake(LifelineEnd self, const Token& token);
  // Returns the first message of a spoke; nullopt for a hub, which waits for the challenge.
  std::optional<PeerMessage> opening() const;
  // Processes a message of the other end and sets `reply` to the answer, if any. Returns false if the other end does
  // not know the token or violates the protocol.
  bool receive(const PeerMessage& message, std::optional<PeerMessage>& reply);
  // Returns whether the other end has proven that it knows the token.
  bool proven() const { return proven_; }
  // Seals for the lines that this end sends and receives; legal once proven().
  LineSeal outgoing() const { return line_seal(self_); }
  LineSeal incoming() const { return line_seal(self_ == LifelineEnd::hub ? LifelineEnd::spoke : LifelineEnd::hub); }

 private:
  SecretKey mac(std::string_view label) const;
  std::string proof_of(LifelineEnd) const;
  LineSeal line_seal(LifelineEnd from) const;

  const LifelineEnd self_;
  const Token token_;
  Nonce of_spoke_{}, of_hub_{};
  bool challenged_ = false, proven_ = false;
};

}  // namespace fp
