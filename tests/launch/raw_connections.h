// Raw TCP connections, as anybody on the network can open them.
#pragma once

#include <cstdint>
#include <string>

#include "launch/channel.h"

namespace fp::test {

// Connects to this port of a loopback address. Returns a connection in progress if it is not accepted within a second;
// descriptor -1 if it is refused.
fp::FileDescriptor connect_to(uint16_t port, const std::string& address = "127.0.0.1");
// Sends as much of the text as the connection accepts now.
void send_raw(const fp::FileDescriptor&, const std::string& text);
// Returns the bytes that have arrived and were not read.
std::string receive_raw(const fp::FileDescriptor&);
// Returns at least `bytes` bytes, or all until the end.
std::string receive_raw(const fp::FileDescriptor&, size_t bytes);
// Returns whether the other end has closed or reset the connection.
bool is_dropped(const fp::FileDescriptor&);
// Returns the maximum backlog of a listening socket (net.core.somaxconn).
int listen_backlog();
// Returns whether connections to this port are refused.
bool is_refused(uint16_t port);

}  // namespace fp::test
