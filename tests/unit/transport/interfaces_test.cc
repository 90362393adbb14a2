// Which interfaces are admitted, and in which order a peer's addresses are tried.
#include "transport/interfaces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gimbal::testing {
namespace {

using ::testing::ElementsAre;

IpAddress v4(uint8_t a, uint8_t b, uint8_t c, uint8_t d) {
  IpAddress ip = {};
  ip[10] = ip[11] = std::byte{0xff};
  ip[12] = std::byte{a};
  ip[13] = std::byte{b};
  ip[14] = std::byte{c};
  ip[15] = std::byte{d};
  return ip;
}

IpAddress link_local(uint8_t last) {
  IpAddress ip = {};
  ip[0] = std::byte{0xfe};
  ip[1] = std::byte{0x80};
  ip[15] = std::byte{last};
  return ip;
}

InterfaceAddress an_address(const std::string& interface, const IpAddress& ip, unsigned prefix_bits, int64_t speed_mbps = 0) {
  return {.interface = interface,
          .index = 1,
          .ip = ip,
          .prefix_bits = prefix_bits,
          .loopback = is_loopback(ip),
          .speed_mbps = speed_mbps};
}

std::vector<InterfaceAddress> some_interfaces() {
  return {an_address("lo", v4(127, 0, 0, 1), 104), an_address("docker0", v4(172, 17, 0, 1), 112),
          an_address("eth0", v4(10, 9, 0, 1), 120), an_address("eth01", v4(10, 8, 0, 1), 120)};
}

std::vector<std::string> admitted_by(const std::string& setting) {
  std::vector<std::string> names;
  const Result<std::vector<InterfaceAddress>> admitted = admit_interfaces(some_interfaces(), setting);
  if (!admitted.ok()) return {admitted.status().message()};
  for (const InterfaceAddress& one : *admitted) names.push_back(one.interface);
  return names;
}

TEST(Interfaces, AreAdmittedInTheSyntaxOfNccl) {
  EXPECT_THAT(admitted_by(""), ElementsAre("lo", "docker0", "eth0", "eth01"));
  EXPECT_THAT(admitted_by("eth"), ElementsAre("eth0", "eth01"));
  EXPECT_THAT(admitted_by("lo,eth0"), ElementsAre("lo", "eth0", "eth01"));
  EXPECT_THAT(admitted_by("=eth0"), ElementsAre("eth0"));
  EXPECT_THAT(admitted_by("=eth0,lo"), ElementsAre("lo", "eth0"));
  EXPECT_THAT(admitted_by("^lo,docker"), ElementsAre("eth0", "eth01"));
  EXPECT_THAT(admitted_by("^=eth0"), ElementsAre("lo", "docker0", "eth01"));
  EXPECT_THAT(admitted_by("ib,eth01"), ElementsAre("eth01"));
}

TEST(Interfaces, ThatDoNotExistAreNamedBesideThoseThatDo) {
  EXPECT_THAT(admitted_by("eth99"), ElementsAre("interface \"eth99\" not found; available: lo, docker0, eth0, eth01"));
  EXPECT_THAT(admitted_by("=eth"), ElementsAre("interface \"eth\" not found; available: lo, docker0, eth0, eth01"));
  EXPECT_THAT(admitted_by("^lo,docker,eth"),
              ElementsAre("no interface is left by \"^lo,docker,eth\"; available: lo, docker0, eth0, eth01"));
  EXPECT_EQ(admit_interfaces({}, "eth0").status().message(), "interface \"eth0\" not found; available: none that is up");
}

TEST(Interfaces, OfferNoLoopbackAddressAndNotTooMany) {
  std::vector<InterfaceAddress> many = some_interfaces();
  for (uint8_t i = 0; i < 100; ++i) many.push_back(an_address("veth" + std::to_string(i), v4(10, 7, i, 1), 120));
  const std::vector<TcpCandidate> offered = offer(many);
  EXPECT_EQ(offered.size(), kMaxCandidates);
  EXPECT_EQ(offered.front().interface, "docker0");
}

std::vector<std::string> order_of(const std::vector<InterfaceAddress>& mine, const std::vector<IpAddress>& theirs) {
  std::vector<TcpCandidate> candidates;
  for (const IpAddress& ip : theirs) candidates.push_back({.interface = "eth0", .ip = ip});
  std::vector<std::string> texts;
  for (const SocketAddress& address : addresses_to_try(mine, candidates, 4021)) texts.push_back(address.text);
  return texts;
}

TEST(AddressesToTry, LeaveOutTheOneThatIsThisHostsToo) {
  EXPECT_THAT(order_of(some_interfaces(), {v4(172, 17, 0, 1), v4(10, 9, 0, 2)}), ElementsAre("10.9.0.2:4021"));
}

TEST(AddressesToTry, BeginWithThisHostsNetworksAndFastInterfaces) {
  const std::vector<InterfaceAddress> mine = {an_address("slow", v4(10, 1, 0, 1), 120, 1000),
                                              an_address("fast", v4(10, 2, 0, 1), 120, 100'000)};
  EXPECT_THAT(order_of(mine, {v4(10, 3, 0, 2), v4(10, 1, 0, 2), v4(10, 2, 0, 2)}),
              ElementsAre("10.2.0.2:4021", "10.1.0.2:4021", "10.3.0.2:4021"));
}

TEST(AddressesToTry, ReachALinkLocalAddressThroughEachInterfaceThatHasOneAndLast) {
  std::vector<InterfaceAddress> mine = {an_address("a", link_local(1), 64), an_address("b", link_local(2), 64),
                                        an_address("c", v4(10, 1, 0, 1), 120)};
  mine[0].index = 70'001;  // no such interface, so the scope is printed as its number
  mine[1].index = 70'002;
  EXPECT_THAT(order_of(mine, {link_local(9), v4(10, 3, 0, 2)}),
              ElementsAre("10.3.0.2:4021", "[fe80::9%70001]:4021", "[fe80::9%70002]:4021"));
}

TEST(Interfaces, OfThisHostAreListedWithTheirAddresses) {
  const Result<std::vector<InterfaceAddress>> interfaces = list_interfaces();
  ASSERT_TRUE(interfaces.ok()) << interfaces.status().message();
  for (const InterfaceAddress& one : *interfaces) {
    EXPECT_FALSE(one.interface.empty());
    EXPECT_GT(one.index, 0u);
    EXPECT_LE(one.prefix_bits, 128u);
  }
}

TEST(TcpAddress, IsReadBackFromItsText) {
  for (const IpAddress& ip : {v4(10, 9, 0, 1), link_local(3)}) {
    const SocketAddress made = make_tcp_address(ip, 4021, is_link_local(ip) ? 1 : 0);
    const SocketAddress resolved = resolve_tcp(made.text).value().front();
    EXPECT_EQ(resolved.text, made.text);
    EXPECT_EQ(ip_of(reinterpret_cast<const sockaddr*>(&resolved.storage)), ip);
  }
}

}  // namespace
}  // namespace gimbal::testing
