// The network interfaces of this host, and which of their addresses a rank offers to ranks of other hosts.
//
// No name is preferred: an interface is chosen by trying which of a peer's addresses can be reached (transport/peer_dial.h).
// GIMBAL_SOCKET_IFNAME restricts the choice, in the syntax of NCCL_SOCKET_IFNAME.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "transport/socket.h"
#include "transport/wire.h"

namespace gimbal {

struct InterfaceAddress {
  std::string interface;
  unsigned index = 0;  // the scope of link-local addresses
  IpAddress ip = {};
  unsigned prefix_bits = 0;  // of the 128 of `ip`
  bool loopback = false;
  int64_t speed_mbps = 0;  // 0: unknown
};

// Every address of every interface that is up, in the kernel's order.
Result<std::vector<InterfaceAddress>> list_interfaces();

// Which interfaces `setting` admits: "eth,ib" those whose names begin with one of these, "=eth0" exactly these names,
// "^docker,lo" all but those that begin so, "^=docker0" all but exactly these. Empty: all. It is an error when none of
// `available` is left; it names them.
Result<std::vector<InterfaceAddress>> admit_interfaces(const std::vector<InterfaceAddress>& available,
                                                       std::string_view setting);

// What this rank tells its peers: neither loopback addresses, which mean another host there, nor more than kMaxCandidates.
std::vector<TcpCandidate> offer(const std::vector<InterfaceAddress>& admitted);

// How to reach a peer's listener: its candidates in the order in which they are tried. On a network that this host is part of
// before others, fast interfaces before slow ones, link-local addresses last and through each interface that has one. An
// address that this host has too (a bridge with the same address everywhere) would lead back here and is left out.
std::vector<SocketAddress> addresses_to_try(const std::vector<InterfaceAddress>& mine, const std::vector<TcpCandidate>& theirs,
                                            uint16_t port);

// The interface of this host at which a connection ends: "eth0"; empty when there is none.
std::string interface_of(int socket, const std::vector<InterfaceAddress>& mine);

}  // namespace gimbal
