// Tests of the addresses at which rank 0 listens.
#include <catch2/catch.hpp>
#include <map>

#include "launch/interfaces.h"

using namespace fp;

namespace {

const std::vector<InterfaceAddress> own_interfaces = {
    {"eth0", "192.0.2.7"}, {"eth0", "2001:db8:1::7"}, {"ib0", "10.1.200.7"}, {"docker0", "172.17.0.1"}};

using Strings = std::vector<std::string>;

Strings listening(const std::vector<InterfaceAddress>& own, bool one_host,
                  const std::map<std::string, std::string>& variables) {
  return listening_addresses(own, one_host, [&](const char* name) {
    const auto it = variables.find(name);
    return it == variables.end() ? std::nullopt : std::optional(it->second);
  });
}

}  // namespace

TEST_CASE("rank 0 listens on loopback for one host and on its host's addresses for several") {
  CHECK(listening(own_interfaces, true, {}) == Strings{"127.0.0.1"});
  CHECK(listening(own_interfaces, false, {}) == Strings{"192.0.2.7", "2001:db8:1::7", "10.1.200.7", "172.17.0.1"});
  CHECK(listening({}, false, {}) == Strings{"127.0.0.1"});
}

TEST_CASE("rank 0 listens on the interfaces that Open MPI may use for TCP") {
  const auto include = [](const std::string& list) {
    return listening(own_interfaces, false, {{"OMPI_MCA_btl_tcp_if_include", list}});
  };
  CHECK(include("ib0") == Strings{"10.1.200.7"});
  CHECK(include("eth0,ib0") == Strings{"192.0.2.7", "2001:db8:1::7", "10.1.200.7"});
  CHECK(include("10.1.0.0/16") == Strings{"10.1.200.7"});
  CHECK(include("10.1.201.0/23,2001:db8::/32") == Strings{"2001:db8:1::7", "10.1.200.7"});
  CHECK(include("10.1.202.0/23,192.0.2.6/31") == Strings{"192.0.2.7"});
  // No existing interface, or no valid entry: all addresses, with a warning.
  for (const char* list : {"ib1", "", "10.1.0.0/33", "10.1.0.0/x", "/16", "::/0x"}) CHECK(include(list).size() == 4);
  CHECK(listening(own_interfaces, false, {{"OMPI_MCA_btl_tcp_if_exclude", "127.0.0.1/8,docker0,2001:db8::/32"}}) ==
        Strings{"192.0.2.7", "10.1.200.7"});
  CHECK(listening(own_interfaces, true, {{"OMPI_MCA_btl_tcp_if_include", "ib0"}}) == Strings{"127.0.0.1"});
}
