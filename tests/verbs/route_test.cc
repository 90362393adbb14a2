// Which GIDs and which MTU two ports meet with, and what is said when they cannot.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transport/verbs/port.h"

namespace gimbal::testing {
namespace {

using ::testing::HasSubstr;

VerbsGid gid(uint8_t index, const char* address) {
  VerbsGid made = {.index = index};
  inet_pton(AF_INET6, address, made.address.data());
  return made;
}

VerbsPort port(std::string device, std::vector<VerbsGid> gids) {
  return {.device = std::move(device), .mtu = IBV_MTU_4096, .gids = std::move(gids)};
}

TEST(FindRoute, PrefersIpv4ThenGlobalThenLinkLocal) {
  const VerbsPort all = port("a", {gid(0, "fe80::1"), gid(1, "2001:db8::1"), gid(2, "::ffff:10.0.0.1")});
  EXPECT_EQ(find_route(all, port("b", {gid(5, "fe80::2"), gid(7, "::ffff:10.0.0.2")}), {})->local.index, 2);
  EXPECT_EQ(find_route(all, port("b", {gid(5, "fe80::2"), gid(7, "::ffff:10.0.0.2")}), {})->remote.index, 7);
  EXPECT_EQ(find_route(all, port("b", {gid(5, "fe80::2"), gid(6, "2001:db8::2")}), {})->local.index, 1);
  EXPECT_EQ(find_route(all, port("b", {gid(5, "fe80::2")}), {})->local.index, 0);
}

TEST(FindRoute, NamesBothPortsWithoutAFamilyInCommon) {
  const Status status = find_route(port("rxe0", {gid(0, "::ffff:10.0.0.1")}), port("mlx5_3", {gid(0, "fe80::2")}), {}).status();
  EXPECT_EQ(status.code(), Code::kMismatch);
  EXPECT_THAT(status.message(), HasSubstr("rxe0:1 with GID ::ffff:10.0.0.1 and mlx5_3:1 with GID fe80::2"));
}

TEST(FindRoute, TakesTheLowerMtu) {
  VerbsPort small = port("a", {gid(0, "fe80::1")});
  small.mtu = IBV_MTU_1024;
  const VerbsPort large = port("b", {gid(0, "fe80::2")});
  EXPECT_EQ(find_route(small, large, {})->mtu, IBV_MTU_1024);
  EXPECT_EQ(find_route(large, small, {})->mtu, IBV_MTU_1024);
}

TEST(FindRoute, RefusesAForcedMtuThatOnePortHasNot) {
  VerbsPort small = port("a", {gid(0, "fe80::1")});
  small.mtu = IBV_MTU_1024;
  VerbsSettings settings;
  settings.mtu = 2048;
  const Status status = find_route(small, port("b", {gid(0, "fe80::2")}), settings).status();
  EXPECT_EQ(status.code(), Code::kMismatch);
  EXPECT_EQ(status.message(), "GIMBAL_IB_MTU is 2048, but a:1 takes 1024 and b:1 takes 4096");
  settings.mtu = 512;
  EXPECT_EQ(find_route(small, port("b", {gid(0, "fe80::2")}), settings)->mtu, IBV_MTU_512);
}

TEST(FindRoute, KeepsInfiniBandAndEthernetApart) {
  VerbsPort infiniband = port("mlx5_0", {gid(0, "fe80::1")});
  infiniband.is_infiniband = true;
  EXPECT_THAT(find_route(infiniband, port("mlx5_1", {gid(0, "fe80::2")}), {}).status().message(),
              HasSubstr("mlx5_0:1 is on InfiniBand, mlx5_1:1 on Ethernet"));
}

TEST(FindRoute, GoesByGidOnlyBetweenInfiniBandSubnets) {
  VerbsPort here = port("a", {gid(0, "fe80::1")});
  VerbsPort there = port("b", {gid(0, "fe80::2")});
  VerbsPort elsewhere = port("c", {gid(0, "fec0::2")});
  for (VerbsPort* one : {&here, &there, &elsewhere}) one->is_infiniband = true;
  EXPECT_FALSE(find_route(here, there, {})->is_global);
  EXPECT_TRUE(find_route(here, elsewhere, {})->is_global);
}

TEST(VerbsPort, ComesBackFromItsBytes) {
  VerbsPort sent = port("mlx5_0", {gid(3, "::ffff:10.0.0.1"), gid(9, "fe80::1")});
  sent.port = 2;
  sent.lid = 77;
  sent.gbits = 400;
  ByteWriter writer;
  sent.write(writer);
  const Bytes bytes = writer.take();
  ByteReader reader(bytes);
  const VerbsPort read = VerbsPort::read(reader);
  ASSERT_TRUE(reader.finished());
  EXPECT_EQ(describe(read), "mlx5_0:2");
  EXPECT_EQ(read.lid, 77);
  EXPECT_EQ(read.gbits, 400);
  ASSERT_EQ(read.gids.size(), 2u);
  EXPECT_EQ(read.gids[0].index, 3);
  EXPECT_EQ(describe(read.gids[1]), "fe80::1");
}

}  // namespace
}  // namespace gimbal::testing
