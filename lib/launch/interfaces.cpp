#include "launch/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <sstream>
#include <system_error>

#include "base/log.h"

namespace fp {
namespace {

// Returns the 4 or 16 bytes of a numeric address; empty for anything else.
std::vector<unsigned char> bytes_of(const std::string& address) {
  std::vector<unsigned char> bytes(sizeof(in6_addr));
  if (::inet_pton(AF_INET6, address.c_str(), bytes.data()) == 1) return bytes;
  bytes.resize(sizeof(in_addr));
  if (::inet_pton(AF_INET, address.c_str(), bytes.data()) == 1) return bytes;
  return {};
}

// Returns whether an address belongs to a network such as 10.1.0.0/16.
bool in_network(const std::string& address, const std::string& network) {
  const size_t slash = network.find('/');
  const std::vector<unsigned char> a = bytes_of(address), n = bytes_of(network.substr(0, slash));
  size_t bits = 0;
  const char *begin = network.data() + slash + 1, *end = network.data() + network.size();
  const auto parsed = std::from_chars(begin, end, bits);
  if (parsed.ec != std::errc{} || parsed.ptr != end || n.empty() || a.size() != n.size() || bits > 8 * n.size())
    return false;
  for (size_t i = 0; i < bits; ++i) {
    const int bit = 7 - static_cast<int>(i % 8);
    if (((a[i / 8] ^ n[i / 8]) >> bit & 1) != 0) return false;
  }
  return true;
}

// Returns whether an Open MPI list contains this interface or a network of its address.
bool is_listed(const InterfaceAddress& own, const std::string& list) {
  std::istringstream in(list);
  for (std::string item; std::getline(in, item, ',');) {
    const bool network = item.find('/') != std::string::npos;
    if (network ? in_network(own.address, item) : item == own.interface) return true;
  }
  return false;
}

}  // namespace

std::vector<InterfaceAddress> addresses_of_this_host() {
  std::vector<InterfaceAddress> addresses;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return addresses;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    const int family = i->ifa_addr == nullptr ? AF_UNSPEC : i->ifa_addr->sa_family;
    if ((family != AF_INET && family != AF_INET6) || (i->ifa_flags & (IFF_UP | IFF_LOOPBACK)) != IFF_UP) continue;
    std::array<char, NI_MAXHOST> text{};
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (::getnameinfo(i->ifa_addr, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) continue;
    if (std::strchr(text.data(), '%') == nullptr) addresses.push_back({i->ifa_name, text.data()});  // %: link-local
  }
  ::freeifaddrs(list);
  return addresses;
}

std::vector<std::string> listening_addresses(const std::vector<InterfaceAddress>& own, bool one_host,
                                             const Variables& variable) {
  constexpr const char *kInclude = "OMPI_MCA_btl_tcp_if_include", *kExclude = "OMPI_MCA_btl_tcp_if_exclude";
  std::vector<std::string> all, chosen;
  const auto include = variable(kInclude), exclude = variable(kExclude);
  for (const InterfaceAddress& i : own) {
    all.push_back(i.address);
    if (include ? is_listed(i, *include) : !(exclude && is_listed(i, *exclude))) chosen.push_back(i.address);
  }
  if (one_host || all.empty()) return {"127.0.0.1"};
  if (!chosen.empty()) return chosen;
  log::warning("{}={} leaves none of this host's addresses ({}): rank 0 listens for the other ranks on all of them",
               include ? kInclude : kExclude, include ? *include : *exclude, fmt::join(all, ", "));
  return all;
}

}  // namespace fp
