#include "launch/proof.h"

#include <sodium.h>

#include "base/error.h"

namespace fp {
namespace {

static_assert(std::tuple_size_v<SecretKey> == crypto_auth_hmacsha256_KEYBYTES);
static_assert(std::tuple_size_v<SecretKey> == crypto_auth_hmacsha256_BYTES);

constexpr size_t kMarkBytes = 16;
constexpr size_t kMarkDigits = 2 * kMarkBytes;

void require_sodium() {
  static const bool ready = ::sodium_init() >= 0;
  FP_CHECK(ready, "libsodium finds no source of random numbers");
}

template <size_t N>
std::array<unsigned char, N> random_bytes() {
  require_sodium();
  std::array<unsigned char, N> bytes;
  ::randombytes_buf(bytes.data(), bytes.size());
  return bytes;
}

std::string hex_of(const unsigned char* bytes, size_t count) {
  std::string text(2 * count + 1, '\0');
  ::sodium_bin2hex(text.data(), text.size(), bytes, count);
  text.pop_back();
  return text;
}

template <size_t N>
bool from_hex(std::string_view text, std::array<unsigned char, N>& bytes) {
  size_t count = 0;
  const char* end = nullptr;
  return text.size() == 2 * N &&
         ::sodium_hex2bin(bytes.data(), bytes.size(), text.data(), text.size(), nullptr, &count, &end) == 0 &&
         count == N && end == text.data() + text.size();
}

// Compares in constant time.
bool same_text(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ::sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

class Mac {
 public:
  explicit Mac(const SecretKey& key) { ::crypto_auth_hmacsha256_init(&state_, key.data(), key.size()); }
  Mac& add(const void* bytes, size_t count) {
    ::crypto_auth_hmacsha256_update(&state_, static_cast<const unsigned char*>(bytes), count);
    return *this;
  }
  SecretKey result() {
    SecretKey out;
    ::crypto_auth_hmacsha256_final(&state_, out.data());
    return out;
  }

 private:
  crypto_auth_hmacsha256_state state_;
};

}  // namespace

Token::Token() : key_(random_bytes<std::tuple_size_v<SecretKey>>()) {}

Token::Token(std::string_view text) {
  FP_CHECK(from_hex(text, key_), "the token of a lifeline has {} digits, not {} hexadecimal ones", text.size(),
           2 * key_.size());
}

std::string Token::text() const { return hex_of(key_.data(), key_.size()); }

std::string LineSeal::mark_of_next(std::string_view line) const {
  std::array<unsigned char, 8> count;  // the same bytes on every host
  for (size_t i = 0; i < count.size(); ++i) count[i] = static_cast<unsigned char>(count_ >> (8 * i));
  const SecretKey mac = Mac(key_).add(count.data(), count.size()).add(line.data(), line.size()).result();
  return hex_of(mac.data(), kMarkBytes);
}

std::string LineSeal::sign(std::string_view line) {
  std::string marked = mark_of_next(line);
  ++count_;
  return marked.append(line);
}

std::optional<std::string_view> LineSeal::verify(std::string_view marked) {
  if (marked.size() < kMarkDigits) return {};
  const std::string_view line = marked.substr(kMarkDigits);
  if (!same_text(marked.substr(0, kMarkDigits), mark_of_next(line))) return {};
  ++count_;
  return line;
}

Handshake::Handshake(LifelineEnd self, const Token& token) : self_(self), token_(token) {
  (self_ == LifelineEnd::hub ? of_hub_ : of_spoke_) = random_bytes<std::tuple_size_v<Nonce>>();
}

SecretKey Handshake::mac(std::string_view label) const {
  const std::string prefix = fmt::format("fptrain lifeline 1: {}", label);
  return Mac(token_.key())
      .add(prefix.c_str(), prefix.size() + 1)  // with its terminating 0, so that no label is a prefix of another
      .add(of_spoke_.data(), of_spoke_.size())
      .add(of_hub_.data(), of_hub_.size())
      .result();
}

std::string Handshake::proof_of(LifelineEnd end) const {
  const SecretKey proof = mac(end == LifelineEnd::hub ? "hub" : "spoke");
  return hex_of(proof.data(), proof.size());
}

LineSeal Handshake::line_seal(LifelineEnd from) const {
  FP_CHECK(proven_, "lines are marked once both ends are proven");
  return LineSeal(mac(from == LifelineEnd::hub ? "lines of the hub" : "lines of the spoke"));
}

std::optional<PeerMessage> Handshake::opening() const {
  if (self_ == LifelineEnd::hub) return {};
  return PeerMessage{"challenge", {hex_of(of_spoke_.data(), of_spoke_.size())}};
}

bool Handshake::receive(const PeerMessage& m, std::optional<PeerMessage>& reply) {
  if (proven_) return false;
  if (self_ == LifelineEnd::spoke) {
    if (m.verb != "proof" || !from_hex(m.text(0), of_hub_) || !same_text(m.text(1), proof_of(LifelineEnd::hub)))
      return false;
    proven_ = true;
    reply = PeerMessage{"proof", {proof_of(LifelineEnd::spoke)}};
    return true;
  }
  if (!challenged_) {
    if (m.verb != "challenge" || !from_hex(m.text(0), of_spoke_)) return false;
    challenged_ = true;
    reply = PeerMessage{"proof", {hex_of(of_hub_.data(), of_hub_.size()), proof_of(LifelineEnd::hub)}};
    return true;
  }
  proven_ = m.verb == "proof" && same_text(m.text(0), proof_of(LifelineEnd::spoke));
  return proven_;
}

}  // namespace fp
