// Chooses the addresses of rank 0's host at which the other ranks can reach it.
#pragma once

#include <string>
#include <vector>

#include "launch/environment.h"

namespace fp {

struct InterfaceAddress {
  std::string interface;
  std::string address;  // numeric
};

// Returns the addresses of this host's interfaces that are up, except loopback and link-local addresses with a scope.
std::vector<InterfaceAddress> addresses_of_this_host();

// Returns the addresses at which rank 0 listens: loopback when all ranks are on its host or `own` is empty, else those
// of `own` that Open MPI's TCP may use (OMPI_MCA_btl_tcp_if_include or _if_exclude: a comma-separated list of interface
// names, or networks such as 10.1.0.0/16). If that leaves none, logs a warning and returns all of `own`.
std::vector<std::string> listening_addresses(const std::vector<InterfaceAddress>& own, bool one_host,
                                             const Variables& variable = process_variable);

}  // namespace fp
